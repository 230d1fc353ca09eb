"""What things are called on the page, and the colour that stands for a method everywhere. To add a
metric, give it words and decimals in `METRICS`; to add a method, a colour in `COLORS`."""

from typing import Any

ABLATIONS = {"prune_children": "no child pruning", "downstream_only": "full reward"}
VARIANCE = "gradient_variance"
METRICS = {
    "train_accuracy": ("training accuracy", 4),
    "test_accuracy": ("test accuracy", 4),
    "train_elbo": ("training ELBO", 2),
    "test_elbo": ("test ELBO", 2),
    "test_bound": ("test bound", 2),
    VARIANCE: ("ln variance", 2),
}
"""The words for a metric, and its decimals."""

# The paper's six methods stay apart in every kind of colour blindness; all are legible as text on
# white. Runs of the same method are told apart by their dashes.
COLORS = {
    "hnca": "#1144dd",
    "hnca+baseline": "#009977",
    "reinforce": "#770000",
    "reinforce+baseline": "#bb8800",
    "loo": "#e022b8",
    "loo-independent": "#bb4499",
    "disarm": "#552266",
    "arm": "#8855cc",
    "straight-through": "#778844",
    "local-expectation": "#445566",
}
OTHER = "#444444"
DASHES = ((), (6, 2), (2, 2), (8, 2, 2, 2), (8, 2, 2, 2, 2, 2))  # of the first variant, the second
MARKS = ("—", "- -", "···", "- ·", "- ··")  # the same, where there is no room for a line


def words(metric: str) -> str:
    """What a metric is called on the page."""
    if metric.startswith(f"{VARIANCE}/"):
        return f"ln variance, {metric.partition('/')[2]}"
    return METRICS[metric][0] if metric in METRICS else metric.replace("_", " ")


def said(name: str, value: Any) -> str:
    """A setting in a few words; nothing for a part of HNCA that is at work as usual."""
    if name in ABLATIONS:
        return "" if value else ABLATIONS[name]
    return f"{name.replace('_', ' ')} {shown(value)}"


def shown(value: Any) -> str:
    """A setting's value for people."""
    if isinstance(value, tuple | list):
        return " x ".join(map(str, value))
    return "default" if value is None else str(value)


def epochs(count: int) -> str:
    """So many epochs."""
    return f"{count} epoch{'' if count == 1 else 's'}"


def rank(estimator: str) -> int:
    """The place of a method where all of them are listed."""
    return [*COLORS, estimator].index(estimator)


def color(estimator: str) -> str:
    """Of a method, known or not."""
    return COLORS.get(estimator, OTHER)


def mark(variant: int) -> str:
    """A line in letters."""
    return MARKS[variant % len(MARKS)]


def dashes(variant: int) -> tuple[int, ...]:
    """Lengths of strokes and gaps; none for a solid line."""
    return DASHES[variant % len(DASHES)]
