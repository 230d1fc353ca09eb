"""What things are called on the page, and the colour that stands for a method everywhere. To add a
metric, give it words and decimals in `METRICS`; to add a method, a colour in `COLORS`. What is not
there is called by its own name."""

import math
from typing import Any, NamedTuple

ABLATIONS = {"prune_children": "no child pruning", "downstream_only": "full reward"}
VARIANCE = "gradient_variance"


class Metric(NamedTuple):
    """How a metric is written, and which values are possible."""

    words: str
    decimals: int  # in tables
    beside: int  # decimals beside a curve, where there is less room
    least: float = -math.inf
    most: float = math.inf


METRICS = {
    "train_accuracy": Metric("training accuracy", 4, 3, 0.0, 1.0),
    "test_accuracy": Metric("test accuracy", 4, 3, 0.0, 1.0),
    "train_elbo": Metric("training ELBO", 2, 1, most=0.0),
    "test_elbo": Metric("test ELBO", 2, 1, most=0.0),
    "train_bound": Metric("training bound", 2, 1, most=0.0),
    "test_bound": Metric("test bound", 2, 1, most=0.0),
    VARIANCE: Metric("ln variance", 2, 2),
    "active_units": Metric("active units", 0, 0, 0.0),
}
SIGNIFICANT = 4  # digits of other metrics
SPLITS = {"train": "training", "test": "test"}

# They stay apart in every kind of colour blindness, and are legible on white: chosen by a search
# for the largest least distance. Nobody could tell two dozen apart, so methods of a family share
# one, and are told apart by their dashes, as runs of the same method are.
LOO, LEARNED, CONTROLS, RELAXED, LIKELIHOOD = (
    "#f05a96",
    "#873c69",
    "#1e004b",
    "#e1003c",
    "#3c0000",
)
COLORS = {
    "hnca": "#1144dd",
    "hnca+baseline": "#009977",
    "hnca+loo": "#8787d2",
    "hnca+learned": "#69690f",
    "reinforce": "#770000",
    "reinforce+baseline": "#bb8800",
    "reinforce+loo": LOO,
    "reinforce+learned": LEARNED,
    "nvil": LEARNED,
    "loo": LOO,
    "loo-independent": "#c300a5",
    "disarm": "#5a0087",
    "arm": "#b45aff",
    "double-cv": CONTROLS,
    "muprop": CONTROLS,
    "rebar": CONTROLS,
    "relax": CONTROLS,
    "straight-through": RELAXED,
    "reinmax": RELAXED,
    "gumbel-softmax": RELAXED,
    "gumbel-straight-through": RELAXED,
    "vimco": LIKELIHOOD,
    "importance-em": LIKELIHOOD,
    "local-expectation": "#0f3c3c",
}
OTHER = "#777777"
DASHES = ((), (6, 2), (2, 2), (8, 2, 2, 2), (8, 2, 2, 2, 2, 2))  # of the first variant, the second
MARKS = ("—", "- -", "···", "- ·", "- ··")  # the same, where there is no room for a line


def words(metric: str) -> str:
    """What a metric is called on the page; that of a layer is called `NAME/LAYER`."""
    metric, _, layer = metric.partition("/")
    if layer:
        return f"{words(metric)}, {layer}"
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
    if known := METRICS.get(metric.partition("/")[0]):
        return known.beside if beside else known.decimals
    before = math.floor(math.log10(abs(value))) + 1 if value else 1  # digits before the point
    return min(max(SIGNIFICANT - before, 0), 12)


def possible(metric: str) -> tuple[float, float]:
    """The least and the most that a metric can be."""
    known = METRICS.get(metric.partition("/")[0])
    return (known.least, known.most) if known else (-math.inf, math.inf)


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
