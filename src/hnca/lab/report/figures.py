"""The paper's figures: which there are, and how they are drawn. The objective and the logarithm of
the gradient variance, a row for each network, a line for each method with its last value beside
it."""

import itertools
import math
import re
from collections import defaultdict
from collections.abc import Container, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..files import take_literally
from .groups import Group, MeanCurve, Panel
from .labels import COLORS, VARIANCE, color, dashes, decimals, mark, objective_words

LETTERS = 8  # points: the size of a last value
START = 20  # a 20th of the curves is off the axis, where the beginning is cut


class Row(NamedTuple):
    """A network, and the methods that are drawn for it."""

    title: str
    groups: list[Group]


class Drawing(NamedTuple):
    """A figure to draw."""

    name: str  # of its files
    title: str
    measure: str
    rows: list[Row]

    @property
    def cut(self) -> bool:
        """Whether the beginning is off the axis: an ELBO's is so low that the rest would look
        flat."""
        return self.measure in ("elbo", "bound")


def drawings(panels: list[Panel]) -> list[Drawing]:
    """A figure for each task and data set, and one for its ablations; of complete runs only."""
    rows: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for panel in panels:
        for subject, groups in _subjects([group for group in panel.groups if group.runs]):
            about = (f"{panel.key.task}{subject}", panel.data, panel.key.measure)
            rows[about].append(Row(_title(panel, groups), groups))
    found: dict[str, Drawing] = {}
    for (what, data, measure), drawn in sorted(rows.items()):
        title = f"{what} on {data}" if data else what
        name = _file_name(f"{what}-{data}", found)
        found[name] = Drawing(name, title, measure, drawn)
    return [found[name] for name in sorted(found)]


def _file_name(words: str, taken: Container[str]) -> str:
    """Letters, digits, dots and dashes only, no longer than a file system allows, and no other
    figure's."""
    plain = re.sub(r"[^\w.-]+", "-", words).strip(".-")[:100] or "figure"
    names = (plain if n == 1 else f"{plain}-{n}" for n in itertools.count(1))
    return next(name for name in names if name not in taken)


def _subjects(groups: list[Group]) -> Iterator[tuple[str, list[Group]]]:
    """The methods as they are; those with an ablation, with it and without."""
    if whole := [group for group in groups if not group.ablated]:
        yield "", whole
    if ablated := {group.method for group in groups if group.ablated}:
        yield "-ablation", [group for group in groups if group.method in ablated]


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
    for row, (left, right) in zip(drawing.rows, grid, strict=True):
        texts[left] = _objective(left, drawing, row.groups)
        texts[right] = _variance(right, row.groups)
        for axes in (left, right):
            _dress(axes, row.title)
    _legend(figure, grid)
    take_literally(figure)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # the axes have their sizes now, and keep them
    for axes, labels in texts.items():
        spread_labels(axes, labels)
    return figure


def _objective(axes: Any, drawing: Drawing, groups: list[Group]) -> list[Any]:
    """Training dotted under the solid test, where there was a test after every epoch."""
    axes.set_ylabel(objective_words(drawing.measure))
    metric, starts = f"train_{drawing.measure}", []
    for group in groups:
        train, test = group.curve(metric), group.curve(f"test_{drawing.measure}")
        if train is None:
            continue
        tested = test is not None and len(test.epochs) == len(train.epochs)
        if test and tested:
            _line(axes, group, test)
        _line(axes, group, train, dotted=tested)
        if drawing.cut and len(train.mean) >= START:
            starts.append(train.mean[len(train.mean) // START])
    if starts:
        axes.set_ylim(bottom=max(axes.get_ylim()[0], min(starts)))
    return _last_values(axes, groups, metric)


def _variance(axes: Any, groups: list[Group]) -> list[Any]:
    axes.set_ylabel("ln mean gradient variance")
    for group in groups:
        if curve := group.curve(VARIANCE):
            _line(axes, group, curve)
    return _last_values(axes, groups, VARIANCE)


def _line(axes: Any, group: Group, curve: MeanCurve, dotted: bool = False) -> None:
    """A mean with its band."""
    style: dict[str, Any] = {"color": color(group.method), "label": group.label, "lw": 1.5}
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


def _last_values(axes: Any, groups: list[Group], metric: str) -> list[Any]:
    """Written at the right edge; where several lines have a colour, with the dashes of each."""
    texts, colors = [], [color(group.method) for group in groups]
    for group in groups:
        if curve := group.curve(metric):
            last = float(curve.mean[-1])
            written = f"{last:.{decimals(metric, last, beside=True)}f}"
            which = f" {mark(group.variant)}" if colors.count(color(group.method)) > 1 else ""
            style = {"color": color(group.method), "va": "center", "fontsize": LETTERS}
            place = axes.get_yaxis_transform()
            texts.append(axes.text(1.01, last, f"{written}{which}", transform=place, **style))
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
    room = (top - bottom) * LETTERS * 1.25 / 72 / inches
    labels = sorted(labels, key=lambda label: label.get_position()[1])
    below = room * np.arange(len(labels))
    places = isotonic_regression([label.get_position()[1] for label in labels] - below).x
    places = np.clip(places, bottom, max(bottom, top - below[-1])) + below
    for label, y in zip(labels, places, strict=True):
        label.set_y(y)
