"""Learning curves as the paper draws them: the objective, and the logarithm of the variance; then
whatever else is measured of each layer."""

import math
from pathlib import Path
from typing import Any

from ..experiments import AbstractExperiment
from ..files import write_figure

VARIANCE = "gradient_variance"


def draw_curves(entries: list[dict[str, Any]], experiment: AbstractExperiment, path: Path) -> None:
    """Draws the metrics of a run; nothing if there are none yet."""
    if not entries:
        return
    from matplotlib.figure import Figure  # takes a while to import

    of_layers = dict.fromkeys(name.partition("/")[0] for name in entries[0] if "/" in name)
    names = list(dict.fromkeys([VARIANCE, *of_layers]))
    figure = Figure(figsize=(5 * (1 + len(names)), 4.4), layout="constrained")
    objective, *others = figure.subplots(1, 1 + len(names))
    _draw_objective(objective, entries, experiment)
    for axes, name in zip(others, names, strict=True):
        _draw_layers(axes, entries, name)
    where = [experiment.title, experiment.data_name, f"seed {experiment.seed}"]
    figure.suptitle(", ".join(filter(None, where)))
    for axes in (objective, *others):
        axes.set_xlabel("epoch")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.grid(alpha=0.3)
        lines, labels = axes.get_legend_handles_labels()
        place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.16), "frameon": False}
        axes.legend(lines, labels, fontsize="small", ncols=1 + (len(labels) > 1), **place)
    write_figure(path, figure, dpi=130)


def _draw_objective(
    axes: Any, entries: list[dict[str, Any]], experiment: AbstractExperiment
) -> None:
    """Training thin; tests thick, or dots where not every epoch was tested."""
    axes.set_ylabel(experiment.measure)
    for split, width in (("train", 1), ("test", 2.2)):
        name = f"{split}_{experiment.measure}"
        points = [(entry["epoch"], entry[name]) for entry in entries if name in entry]
        if points:
            sparse = len(points) < len(entries) or len(points) == 1
            x, y = zip(*points, strict=True)
            style = {"marker": "o", "ls": "", "ms": 2 + 1.5 * width} if sparse else {"lw": width}
            axes.plot(x, y, color="C0", label=f"{split} ({y[-1]:.4g})", **style)


def _draw_layers(axes: Any, entries: list[dict[str, Any]], metric: str) -> None:
    """A metric of each layer, in the order in which they were written, which is the network's; and
    of all of them. A variance by its logarithm."""
    logged = metric == VARIANCE
    axes.set_ylabel("ln mean gradient variance" if logged else metric.replace("_", " "))
    epochs = [entry["epoch"] for entry in entries]
    for name in (name for name in entries[0] if name.partition("/")[0] == metric):
        layer = name.partition("/")[2]
        values = [entry.get(name, math.nan) for entry in entries]
        values = [math.log(max(value, 1e-45)) for value in values] if logged else values
        style = {"lw": 1} if layer else {"color": "0.3", "lw": 2}
        label = f"{layer or 'all measured layers'} ({values[-1]:.4g})"
        axes.plot(epochs, values, marker="o" if len(entries) == 1 else None, label=label, **style)
