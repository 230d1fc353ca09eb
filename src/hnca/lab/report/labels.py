"""What things are called on the page, and the colour that stands for a method everywhere. To add a
metric, give it words and decimals in `METRICS`; to add a method, a colour in `COLORS`. What is not
there is called by its own name."""

import math
from typing import Any, NamedTuple

ABLATIONS = {"prune_children": "no child pruning", "downstream_only": "full reward"}
VARIANCE = "gradient_variance"


class Metric(NamedTuple):
    """How a metric is written."""

    words: str
    decimals: int  # in tables
    beside: int  # decimals beside a curve, where there is less room


METRICS = {
    "train_accuracy": Metric("training accuracy", 4, 3),
    "test_accuracy": Metric("test accuracy", 4, 3),
    "train_elbo": Metric("training ELBO", 2, 1),
    "test_elbo": Metric("test ELBO", 2, 1),
    "train_bound": Metric("training bound", 2, 1),
    "test_bound": Metric("test bound", 2, 1),
    VARIANCE: Metric("ln variance", 2, 2),
}
SIGNIFICANT = 4  # digits of other metrics
SPLITS = {"train": "training", "test": "test"}

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
    "double-cv": "#007788",
    "muprop": "#0066aa",
    "rebar": "#006644",
    "relax": "#227700",
    "reinmax": "#aa4400",
    "gumbel-softmax": "#5a5a3c",
    "gumbel-straight-through": "#7a5c3c",
    "vimco": "#993355",
    "importance-em": "#664477",
    "local-expectation": "#445566",
}
OTHER = "#444444"
DASHES = ((), (6, 2), (2, 2), (8, 2, 2, 2), (8, 2, 2, 2, 2, 2))  # of the first variant, the second
MARKS = ("—", "- -", "···", "- ·", "- ··")  # the same, where there is no room for a line


def words(metric: str) -> str:
    """What a metric is called on the page."""
    if metric.startswith(f"{VARIANCE}/"):
        return f"ln variance, {metric.partition('/')[2]}"
    if metric in METRICS:
        return METRICS[metric].words
    split, _, measure = metric.partition("_")
    if split in SPLITS and measure:
        return f"{SPLITS[split]} {measure.replace('_', ' ')}"
    return metric.replace("_", " ")


def objective_words(measure: str) -> str:
    """What the mean of the objective is called: `ELBO` for the measure `elbo`."""
    return words(f"train_{measure}").removeprefix(f"{SPLITS['train']} ")


def decimals(metric: str, value: float, beside: bool = False) -> int:
    """How many of them to write, in a table or beside a curve."""
    if metric in METRICS:
        return METRICS[metric].beside if beside else METRICS[metric].decimals
    before = math.floor(math.log10(abs(value))) + 1 if value else 1  # digits before the point
    return min(max(SIGNIFICANT - before, 0), 12)


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


def rank(method: str) -> int:
    """The place of a method where all of them are listed."""
    return [*COLORS, method].index(method)


def color(method: str) -> str:
    """Of a method, known or not."""
    return COLORS.get(method, OTHER)


def mark(variant: int) -> str:
    """A line in letters."""
    return MARKS[variant % len(MARKS)]


def dashes(variant: int) -> tuple[int, ...]:
    """Lengths of strokes and gaps; none for a solid line."""
    return DASHES[variant % len(DASHES)]
