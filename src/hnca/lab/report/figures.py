"""The paper's figures: which there are, and how they are drawn. The objective and the logarithm of
the gradient variance by epochs, and the objective by time; a row for each network, a line for each
method with its last value beside it."""

import itertools
import math
import re
from collections import defaultdict
from collections.abc import Container, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..files import take_literally
from .groups import Group, MeanCurve, Panel
from .labels import VARIANCE, color, dashes, decimals, mark, objective_words, rank

LETTERS = 8  # points: the size of a last value
BESIDE = 1.05  # where they stand: 1 is the right edge of the axes
THIN, THICK = 1.0, 2.2  # lines of training and of tests
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
    def train(self) -> str:
        return f"train_{self.measure}"

    @property
    def test(self) -> str:
        return f"test_{self.measure}"

    @property
    def cut(self) -> bool:
        """Whether the beginning is off the axis: an ELBO's is so low that the rest would look
        flat. Of few epochs, all are shown."""
        longest = max(group.any.done for row in self.rows for group in row.groups)
        return self.measure in ("elbo", "bound") and longest >= START


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


def draw_figure(drawing: Drawing, narrow: bool = False) -> Any:
    """The figure: for each network the objective by epochs, the variance, and the objective by
    time, side by side; or, for a narrow screen, one below the other."""
    from matplotlib.figure import Figure

    rows, columns = (3 * len(drawing.rows), 1) if narrow else (len(drawing.rows), 3)
    size = (5, 3.2 * rows + 1.2) if narrow else (14, 3.2 * rows + 0.8)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False).reshape(-1, 3)
    texts: dict[Any, list] = {}
    for row, (left, middle, right) in zip(drawing.rows, grid, strict=True):
        _objective(left, drawing, row.groups)
        _variance(middle, row.groups)
        _objective(right, drawing, row.groups, by_time=True)
        if drawing.cut:
            _cut_beginning(left, drawing, row.groups)
        right.set_ylim(left.get_ylim())
        for axes, metric in ((left, drawing.train), (middle, VARIANCE)):
            _end_at_last_epoch(axes, row.groups)
            texts[axes] = _last_values(axes, row.groups, metric)
        for axes in (left, middle, right):
            _dress(axes, row.title)
            axes.set_xlabel("epoch")
            axes.xaxis.get_major_locator().set_params(integer=axes is not right, min_n_ticks=1)
        right.set_xlabel("seconds of training, at the median pace")
    _legend(figure, drawing, narrow)
    take_literally(figure)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # the axes have their sizes now, and keep them
    for axes, labels in texts.items():
        _join_labels(axes, labels, [label.get_position()[1] for label in labels])
    return figure


def _objective(axes: Any, drawing: Drawing, groups: list[Group], by_time: bool = False) -> None:
    """Of training and, where there are any, of tests; by epochs or by seconds."""
    axes.set_ylabel(objective_words(drawing.measure))
    for group in groups:
        for metric in (drawing.train, drawing.test):
            if curve := group.curve(metric):
                across = group.elapsed(curve.epochs) if by_time else curve.epochs
                _line(axes, group, curve, across, test=metric == drawing.test)


def _cut_beginning(axes: Any, drawing: Drawing, groups: list[Group]) -> None:
    curves = [curve for group in groups if (curve := group.curve(drawing.train))]
    starts = [curve.mean[len(curve.mean) // START] for curve in curves if len(curve.mean) >= START]
    if starts:
        axes.set_ylim(bottom=max(axes.get_ylim()[0], min(starts)))


def _variance(axes: Any, groups: list[Group]) -> None:
    axes.set_ylabel("ln mean gradient variance")
    for group in groups:
        if curve := group.curve(VARIANCE):
            _line(axes, group, curve, curve.epochs)


def _line(axes: Any, group: Group, curve: MeanCurve, across: Any, test: bool = False) -> None:
    """A mean with its band or its seeds. Thick is a test, always; where not every epoch was tested,
    there are dots where one was."""
    style, pale = _style(group), {"color": color(group.method), "alpha": 0.5}
    if len(across) == 1 or len(across) < group.any.done:
        axes.plot(across, curve.mean, "o", color=style["color"], markersize=4.5 if test else 2.5)
        if curve.band:
            axes.vlines(across, *curve.band, lw=1, **pale)
        elif len(curve.seeds) > 1:
            axes.plot(across, curve.seeds.T, "o", markersize=1.5, **pale)
        return
    axes.plot(across, curve.mean, lw=THICK if test else THIN, **style)
    if curve.band:
        axes.fill_between(across, *curve.band, color=style["color"], alpha=0.2, lw=0)
    elif len(curve.seeds) > 1:
        axes.plot(across, curve.seeds.T, lw=0.6, **pale)


def _style(group: Group) -> dict[str, Any]:
    """Colour and dashes of a group, for a test and for training."""
    found: dict[str, Any] = {"color": color(group.method)}
    return found | ({"dashes": dashes(group.variant)} if dashes(group.variant) else {})


def _end_at_last_epoch(axes: Any, groups: list[Group]) -> None:
    """So that last values stand at the ends of their lines."""
    last = max(group.any.done for group in groups)
    axes.set_xlim(*((0.5, 1.5) if last == 1 else (1 - 0.02 * last, 1.02 * last)))


def _last_values(axes: Any, groups: list[Group], metric: str) -> list[Any]:
    """Of training, as in the paper: at the right edge, below a word that says so; where several
    lines have a colour, with the dashes of each."""
    texts, colors = [], [color(group.method) for group in groups]
    place = axes.get_yaxis_transform()
    for group in groups:
        if curve := group.curve(metric):
            last = float(curve.mean[-1])
            written = f"{last:.{decimals(metric, last, beside=True)}f}"
            which = f" {mark(group.variant)}" if colors.count(color(group.method)) > 1 else ""
            style = {"color": color(group.method), "va": "center", "fontsize": LETTERS}
            texts.append(axes.text(BESIDE, last, f"{written}{which}", transform=place, **style))
    above = {"xycoords": "axes fraction", "xytext": (0, LETTERS), "textcoords": "offset points"}
    axes.annotate("training", (BESIDE, 1), color="0.35", fontsize=LETTERS, style="italic", **above)
    return texts


def _dress(axes: Any, title: str) -> None:
    axes.set_title(title, fontsize="medium", pad=LETTERS * 2)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


def _legend(figure: Any, drawing: Drawing, narrow: bool) -> None:
    """One for all rows, below, in the order in which methods are always listed; then what the
    kinds of lines mean."""
    from matplotlib.lines import Line2D

    found: dict[str, Any] = {}
    groups = [group for row in drawing.rows for group in row.groups]
    for group in sorted(groups, key=lambda group: rank(group.method)):
        found.setdefault(group.label, Line2D([], [], lw=1.6, **_style(group)))
    found["thin: training"] = Line2D([], [], color="0.35", lw=THIN)
    if any(group.curve(drawing.test) for group in groups):
        dot = {"marker": "o", "markersize": 4.5}
        found["thick, or dots: test"] = Line2D([], [], color="0.35", lw=THICK, **dot)
    rows = math.ceil(sum(len(label) + 7 for label in found) / (45 if narrow else 150))
    columns = math.ceil(len(found) / rows)
    place = {"loc": "outside lower center", "ncols": columns, "frameon": False}
    figure.legend(list(found.values()), list(found), fontsize="small", **place)


def _join_labels(axes: Any, labels: list[Any], ends: list[float]) -> None:
    """Spreads the last values, and joins each to the end of its line."""
    spread_labels(axes, labels)
    bottom, top = axes.get_ylim()
    for label, end in zip(labels, ends, strict=True):
        if bottom <= end <= top:
            style = {"color": label.get_color(), "lw": 0.7, "clip_on": False}
            place = {"transform": axes.get_yaxis_transform(), "gid": "joint"}
            axes.plot([0.985, BESIDE - 0.01], [end, label.get_position()[1]], **style, **place)
    axes.set_ylim(bottom, top)


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
