"""What things are called on the page."""

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
