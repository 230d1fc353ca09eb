"""The figures of docs/results/beyond.md, of the runs that beyond.py gives them."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from committed import rate_of
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from hnca.lab.report.labels import color, rank, words
from hnca.lab.report.record import RunRecord
from hnca.lab.words import counted

ELBO, BOUND, UNITS = "train_elbo", "test_bound", "active_units"
DROP = 40  # nats: what is further below the best is off the axis
TUNED = {(84, 3e-3): "#009977", (840, 3e-3): "#1144dd", (840, 1e-3): "#aa44cc"}  # epochs and rate
PAPER = {"color": "0.5", "lw": 1.2}


def rates_figure(runs: Sequence[RunRecord]) -> Figure:
    """What ten epochs come to by learning rate: a panel for each depth, a line for each method."""
    depths = sorted({run.layers or 0 for run in runs})
    figure, panels = _panels([counted(depth, "layer") for depth in depths])
    for depth, axes in zip(depths, panels, strict=True):
        here = [run for run in runs if run.layers == depth]
        for method in _methods(here):
            reached = {rate_of(run): run.final[ELBO] for run in here if run.method == method}
            points = sorted(reached.items())
            axes.plot(*zip(*points, strict=True), "o-", markersize=3.5, color=color(method))
        best = max(run.final[ELBO] for run in here)
        axes.set(xscale="log", xlabel="learning rate", ylim=(best - DROP, best + DROP / 20))
    panels[0].set_ylabel(words(ELBO))
    _legend(figure, {method: {"color": color(method)} for method in _methods(runs)})
    return figure


def course_figure(
    paper: Iterable[RunRecord], tuned: Iterable[RunRecord], published: Callable[[int], float]
) -> Figure:
    """The training ELBO on its way, at the paper's rate and at tuned ones, and the test bounds, of
    the first seed: a panel for each depth, with the bound that the paper has published for it."""
    styled = [(run, PAPER) for run in paper if run.seed == 0]
    for run in tuned:
        if run.seed == 0 and (run.done, rate_of(run)) in TUNED:
            styled.append((run, {"color": TUNED[run.done, rate_of(run)], "lw": 1.2}))
    depths = sorted({run.layers or 0 for run, _ in styled})
    figure, panels = _panels([counted(depth, "layer") for depth in depths])
    for depth, axes in zip(depths, panels, strict=True):
        for run, style in styled:
            if run.layers != depth:
                continue
            elbo, bound = run.curves[ELBO], run.curves[BOUND]
            axes.plot(elbo.epochs, elbo.values, **style)
            axes.plot(bound.epochs, bound.values, "o", markersize=3, color=style["color"])
        best = published(depth)
        axes.axhline(best, color="black", lw=0.8, linestyle=":")
        axes.set(xscale="log", xlabel="epoch", ylim=(best - DROP, best + DROP / 10))
    panels[0].set_ylabel("nats")
    meaning = {
        f"{epochs} epochs, {rate:g} to 0": {"color": shade}
        for (epochs, rate), shade in TUNED.items()
    }
    meaning["840 epochs at 0.0001, as in the paper"] = PAPER
    meaning["lines: training ELBO; dots: test bound"] = {"color": "0.5", "marker": "o", "lw": 0}
    meaning["the paper's test bound"] = {"color": "black", "linestyle": ":"}
    _legend(figure, meaning)
    return figure


def units_figure(runs: Sequence[RunRecord]) -> Figure:
    """Active units by epoch, with warm-up and without: a panel for each layer."""
    layers = sorted(name for name in runs[0].curves if name.startswith(f"{UNITS}/"))
    figure, panels = _panels([name.removeprefix(f"{UNITS}/") for name in layers])
    for name, axes in zip(layers, panels, strict=True):
        for run in runs:
            style = {"color": color(run.method), **_warmed(run.settings["kl_warmup"])}
            axes.plot(run.curves[name].epochs, run.curves[name].values, **style)
        axes.set(xlabel="epoch", ylim=(0, 205))
    panels[0].set_ylabel(f"{words(UNITS)}, of 200")
    meaning = {method: {"color": color(method)} for method in _methods(runs)}
    for epochs in sorted({run.settings["kl_warmup"] for run in runs}):
        said = f"KL terms rise for {counted(epochs, 'epoch')}" if epochs else "no warm-up"
        meaning[said] = {"color": "0.35", **_warmed(epochs)}
    _legend(figure, meaning)
    return figure


def _panels(titles: Sequence[str]) -> tuple[Figure, Sequence[Any]]:
    """Axes side by side."""
    figure = Figure(figsize=(4.2 * len(titles), 4), layout="constrained")
    (panels,) = figure.subplots(1, len(titles), squeeze=False)
    for axes, title in zip(panels, titles, strict=True):
        axes.set_title(title, fontsize="medium")
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    return figure, panels


def _methods(runs: Iterable[RunRecord]) -> list[str]:
    """Those of the runs, in the order in which they are always listed."""
    return sorted({run.method for run in runs}, key=rank)


def _warmed(epochs: int) -> dict[str, Any]:
    """Dashed with a warm-up."""
    return {"linestyle": "--" if epochs else "-"}


def _legend(figure: Figure, meaning: dict[str, dict[str, Any]]) -> None:
    """One for all panels, below."""
    lines = [Line2D([], [], **style) for style in meaning.values()]
    place = {"loc": "outside lower center", "ncols": 4, "frameon": False, "fontsize": "small"}
    figure.legend(lines, list(meaning), **place)
