"""The numbers behind the page's curves, in as few digits and points as can be seen."""

from typing import Any

import numpy as np

from .colors import color, dashes
from .grouping import Group, MeanCurve, Panel, scaled
from .run import Run
from .words import words

POINTS = 240  # of a curve, at most
HIDDEN = ("epoch", "step", "seconds")


def curves_data(panels: list[Panel]) -> list[dict[str, Any]]:
    """For each panel its metrics, and for each metric the lines."""
    return [{"title": panel.title, "metrics": _metrics(panel)} for panel in panels]


def _metrics(panel: Panel) -> list[dict[str, Any]]:
    """In the order of the page's menu: the objective first."""
    runs = [run for group in panel.groups for run in group.runs + group.unfinished]
    names = {name for run in runs for name in run.curves if name not in HIDDEN}
    first = [f"train_{panel.measure}", f"test_{panel.measure}", "test_bound"]
    order = sorted(names, key=lambda name: ([*first, name].index(name), name))
    metrics = []
    for name in order:
        lines = [line for group in panel.groups for line in _lines(group, name)]
        metrics.append({"name": words(name), "lines": lines})
    return metrics


def _lines(group: Group, metric: str) -> list[dict[str, Any]]:
    """The mean of the complete runs, and every unfinished run by itself."""
    lines = []
    if curve := group.curve(metric):
        lines.append(_line(group, group.label, len(group.runs), curve))
    for run in group.unfinished:
        if metric in run.curves:
            lines.append(_unfinished(group, run, metric))
    return lines


def _unfinished(group: Group, run: Run, metric: str) -> dict[str, Any]:
    curve = run.curves[metric]
    label = f"{group.label}, seed {run.seed} (unfinished: {run.progress})"
    line = _line(group, label, 1, MeanCurve(curve.epochs, scaled(metric, curve), None))
    return line | {"thin": True}


def _line(group: Group, label: str, seeds: int, curve: MeanCurve) -> dict[str, Any]:
    kept = thinned(len(curve.epochs))
    return {
        "label": label,
        "seeds": seeds,
        "color": color(group.estimator),
        "dashes": dashes(group.variant),
        "epochs": curve.epochs[kept].tolist(),
        "mean": _rounded(curve.mean[kept]),
        "half": None if curve.half is None else _rounded(curve.half[kept]),
    }


def thinned(count: int) -> np.ndarray:
    """Which points to show: the first, the last, and others evenly between them."""
    return np.unique(np.linspace(0, count - 1, min(count, POINTS)).round().astype(int))


def _rounded(values: np.ndarray) -> list[float]:
    return [float(f"{value:.5g}") for value in values]
