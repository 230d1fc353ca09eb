"""Learning curves as the paper draws them: the objective, and the logarithm of the variance."""

import math
from pathlib import Path
from typing import Any

from ..experiments import AbstractExperiment
from ..files import write_figure


def draw_curves(entries: list[dict[str, Any]], experiment: AbstractExperiment, path: Path) -> None:
    """Draws the metrics of a run; nothing if there are none yet."""
    if not entries:
        return
    from matplotlib.figure import Figure  # takes a while to import

    figure = Figure(figsize=(10, 4), layout="constrained")
    objective, variance = figure.subplots(1, 2)
    marker = "o" if len(entries) == 1 else None
    for name, style in ((f"train_{experiment.measure}", ":"), (f"test_{experiment.measure}", "-")):
        points = [(entry["epoch"], entry[name]) for entry in entries if name in entry]
        if points:
            label = f"{name.replace('_', ' ')} ({points[-1][1]:.4g})"
            x, y = zip(*points, strict=True)
            objective.plot(x, y, style, color="C0", marker=marker, label=label)
    epochs = [entry["epoch"] for entry in entries]
    for name in sorted(name for name in entries[0] if name.startswith("gradient_variance")):
        layer = name.partition("/")[2]
        logs = [math.log(max(entry[name], 1e-45)) for entry in entries]
        style = {"color": "0.3", "lw": 2} if not layer else {"lw": 1}
        label = f"{layer or 'all measured layers'} ({logs[-1]:.2f})"
        variance.plot(epochs, logs, marker=marker, label=label, **style)
    objective.set(ylabel=experiment.measure, title=experiment.title)
    where = ", ".join(filter(None, [experiment.data_name, f"seed {experiment.seed}"]))
    variance.set(ylabel="ln mean gradient variance", title=where)
    for axes in (objective, variance):
        axes.set_xlabel("epoch")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.grid(alpha=0.3)
        axes.legend()
    write_figure(path, figure, dpi=130)
