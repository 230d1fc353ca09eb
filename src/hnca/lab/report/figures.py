"""The paper's figures: which there are, and how they are drawn. The objective and the logarithm of
the gradient variance, a row for each network, a line for each method with its last value beside
it."""

import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from .groups import Group, MeanCurve, Panel
from .labels import COLORS, VARIANCE, color, dashes, mark

SIZE = 8  # of the letters of a last value, in points
DECIMALS = {"accuracy": 3, "elbo": 1}
START = 20  # an ELBO begins so low that the rest would look flat: a 20th of it is off the axis


class Row(NamedTuple):
    """A network, and the methods that are drawn for it."""

    title: str
    groups: list[Group]


class Drawing(NamedTuple):
    """A figure to draw."""

    name: str
    title: str
    measure: str
    rows: list[Row]


def drawings(panels: list[Panel]) -> list[Drawing]:
    """A figure for each task and data set, and one for its ablations; of complete runs only."""
    found: dict[str, Drawing] = {}
    for panel in panels:
        for subject, groups in _subjects([group for group in panel.groups if group.runs]):
            name = re.sub(r"[^\w.-]+", "-", f"{panel.key.task}{subject}-{panel.data}")
            title = f"{panel.key.task}{subject} on {panel.data}"
            drawing = found.setdefault(name, Drawing(name, title, panel.measure, []))
            drawing.rows.append(Row(_title(panel, groups), groups))
    return [found[name] for name in sorted(found)]


def _subjects(groups: list[Group]) -> Iterator[tuple[str, list[Group]]]:
    """The methods as they are; those with an ablation, with it and without."""
    if whole := [group for group in groups if not group.ablated]:
        yield "", whole
    if ablated := {group.estimator for group in groups if group.ablated}:
        yield "-ablation", [group for group in groups if group.estimator in ablated]


def _title(panel: Panel, groups: list[Group]) -> str:
    seeds = sorted({len(group.runs) for group in groups})
    counts = str(seeds[0]) if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    return f"{panel.title}, {counts} seed{'' if seeds == [1] else 's'}"


def draw_figure(drawing: Drawing) -> Any:
    """The figure."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.1 * len(drawing.rows) + 0.6), layout="constrained")
    grid = figure.subplots(len(drawing.rows), 2, squeeze=False)
    texts: dict[Any, list] = {}
    for row, (objective, variance) in zip(drawing.rows, grid, strict=True):
        texts[objective] = _objective(objective, drawing.measure, row.groups)
        texts[variance] = _variance(variance, row.groups)
        for axes in (objective, variance):
            _dress(axes, row.title)
    _legend(figure, grid)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # the axes have their sizes now, and keep them
    for axes, labels in texts.items():
        spread_labels(axes, labels)
    return figure


def _objective(axes: Any, measure: str, groups: list[Group]) -> list[Any]:
    """Training dotted under the solid test, where there was a test after every epoch."""
    axes.set_ylabel(measure.replace("elbo", "ELBO"))
    starts = []
    for group in groups:
        train, test = group.curve(f"train_{measure}"), group.curve(f"test_{measure}")
        if train is None:
            continue
        tested = test is not None and len(test.epochs) == len(train.epochs)
        if test and tested:
            _line(axes, group, test)
        _line(axes, group, train, dotted=tested)
        if measure == "elbo" and len(train.mean) >= START:
            starts.append(train.mean[len(train.mean) // START])
    if starts:
        axes.set_ylim(bottom=max(axes.get_ylim()[0], min(starts)))
    return _last_values(axes, groups, f"train_{measure}", DECIMALS[measure])


def _variance(axes: Any, groups: list[Group]) -> list[Any]:
    axes.set_ylabel("ln mean gradient variance")
    for group in groups:
        if curve := group.curve(VARIANCE):
            _line(axes, group, curve)
    return _last_values(axes, groups, VARIANCE, decimals=2)


def _line(axes: Any, group: Group, curve: MeanCurve, dotted: bool = False) -> None:
    """A mean with its band."""
    style: dict[str, Any] = {"color": color(group.estimator), "label": group.label, "lw": 1.5}
    if dashes(group.variant):
        style["dashes"] = dashes(group.variant)
    if dotted:
        style |= {"dashes": (1, 1.5), "lw": 1, "label": None}
    if len(curve.epochs) == 1:
        style |= {"marker": "o", "markersize": 4, "mfc": "none" if dotted else None}
        axes.set_xlim(0.5, 1.5)
    axes.plot(curve.epochs, curve.mean, **style)
    if curve.half is not None:
        low, high = curve.mean - curve.half, curve.mean + curve.half
        axes.fill_between(curve.epochs, low, high, color=style["color"], alpha=0.2, lw=0)


def _last_values(axes: Any, groups: list[Group], metric: str, decimals: int) -> list[Any]:
    """Written at the right edge; where a method has several lines, with the dashes of each."""
    texts, methods = [], [group.estimator for group in groups]
    for group in groups:
        if curve := group.curve(metric):
            last = float(curve.mean[-1])
            which = f" {mark(group.variant)}" if methods.count(group.estimator) > 1 else ""
            style = {"color": color(group.estimator), "va": "center", "fontsize": SIZE}
            place = axes.get_yaxis_transform()
            texts.append(
                axes.text(1.01, last, f"{last:.{decimals}f}{which}", transform=place, **style)
            )
    return texts


def _dress(axes: Any, title: str) -> None:
    axes.set_title(title, fontsize="medium")
    axes.set_xlabel("epoch")
    axes.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


def _legend(figure: Any, grid: Any) -> None:
    """One for all rows, below, in the order in which methods are always listed."""
    found = {}
    for axes in grid.flat:
        for line, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, line)
    order = list(COLORS.values())
    labels = sorted(found, key=lambda label: [*order, c := found[label].get_color()].index(c))
    rows = math.ceil(sum(len(label) + 7 for label in labels) / 125)
    columns = math.ceil(len(labels) / rows)
    place = {"loc": "outside lower center", "ncols": columns, "frameon": False}
    figure.legend([found[label] for label in labels], labels, fontsize="small", **place)


def spread_labels(axes: Any, labels: list[Any]) -> None:
    """Moves texts up and down until none is on another, as little as that takes: by isotonic
    regression of where they want to be, less the room that those below them need."""
    from scipy.optimize import isotonic_regression

    if not labels:
        return
    bottom, top = axes.get_ylim()
    inches = axes.get_position().height * axes.figure.get_figheight()
    room = (top - bottom) * SIZE * 1.25 / 72 / inches
    labels = sorted(labels, key=lambda label: label.get_position()[1])
    below = room * np.arange(len(labels))
    places = isotonic_regression([label.get_position()[1] for label in labels] - below).x
    places = np.clip(places, bottom, max(bottom, top - below[-1])) + below
    for label, y in zip(labels, places, strict=True):
        label.set_y(y)
