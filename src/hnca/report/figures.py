"""The paper's figures: the objective and the logarithm of the gradient variance, a row for each
network, a line for each method with its last value beside it."""

import re
from typing import Any, NamedTuple

import numpy as np

from .colors import color, dashes
from .grouping import VARIANCE, Group, MeanCurve, Panel

SIZE = 8  # of the letters of a last value, in points


class Plan(NamedTuple):
    """A figure to draw."""

    name: str
    title: str
    rows: list[tuple[str, list[Group]]]  # a title, and who is in it
    measure: str


def plans(panels: list[Panel]) -> list[Plan]:
    """A figure for each task and data set, and one for the ablations; of complete runs only."""
    found: dict[str, Plan] = {}
    subjects = {"": lambda group: not group.ablated, "-ablation": lambda group: group.ablated}
    for ending, subject in subjects.items():
        for panel in panels:
            groups = [group for group in panel.groups if group.runs]
            methods = {group.estimator for group in groups if subject(group)}
            if ending:  # beside what is ablated, the whole
                subject = lambda group, methods=methods: group.estimator in methods
            if chosen := [group for group in groups if subject(group)]:
                plan = _plan(panel, ending)
                found.setdefault(plan.name, plan).rows.append((_title(panel, chosen), chosen))
    return list(found.values())


def _plan(panel: Panel, ending: str) -> Plan:
    task = panel.key.task
    name = re.sub(r"[^\w.-]+", "-", f"{task}{ending}-{panel.data}")
    what = "ablations of HNCA" if ending else task
    return Plan(name, f"{what} on {panel.data}", [], panel.measure)


def _title(panel: Panel, groups: list[Group]) -> str:
    seeds = sorted({len(group.runs) for group in groups})
    counts = str(seeds[0]) if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    return f"{panel.title}, {counts} seed{'' if seeds == [1] else 's'}"


def draw(plan: Plan) -> Any:
    """The figure."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.1 * len(plan.rows) + 0.6), layout="constrained")
    axes = figure.subplots(len(plan.rows), 2, squeeze=False)
    labels: list[tuple[Any, list]] = []
    for (title, groups), (objective, variance) in zip(plan.rows, axes, strict=True):
        objective.set(title=title, ylabel=plan.measure.replace("elbo", "ELBO"))
        variance.set(title=title, ylabel="ln mean gradient variance")
        labels.append((objective, [_objective(objective, plan.measure, each) for each in groups]))
        labels.append((variance, [_variance(variance, each) for each in groups]))
    for panel in axes.flat:
        panel.set_xlabel("epoch")
        panel.title.set_size("medium")
        panel.xaxis.get_major_locator().set_params(integer=True)
        panel.grid(alpha=0.25)
        panel.spines[["top", "right"]].set_visible(False)
    _legend(figure, axes)
    figure.draw_without_rendering()  # now the panels have their sizes
    for panel, texts in labels:
        spread_labels(panel, [text for text in texts if text])
    return figure


def _objective(axes: Any, measure: str, group: Group) -> Any:
    """Training dotted under the solid test, where there was a test after every epoch."""
    train, test = group.curve(f"train_{measure}"), group.curve(f"test_{measure}")
    if train is None:
        return None
    tested = test is not None and len(test.epochs) == len(train.epochs)
    if test is not None and tested:
        _line(axes, group, test)
    return _line(axes, group, train, dotted=tested)


def _variance(axes: Any, group: Group) -> Any:
    curve = group.curve(VARIANCE)
    return _line(axes, group, curve) if curve else None


def _line(axes: Any, group: Group, curve: MeanCurve, dotted: bool = False) -> Any:
    """Draws a mean with its band, and returns its last value as a text at the right edge."""
    style: dict[str, Any] = {"color": color(group.estimator), "label": group.label, "lw": 1.5}
    if dashes(group.variant):
        style["dashes"] = dashes(group.variant)
    if dotted:
        style |= {"dashes": (1, 1.5), "lw": 1, "label": None}
    if len(curve.epochs) == 1:
        style |= {"marker": "o", "markersize": 4, "mfc": "none" if dotted else None}
    axes.plot(curve.epochs, curve.mean, **style)
    if curve.half is not None:
        low, high = curve.mean - curve.half, curve.mean + curve.half
        axes.fill_between(curve.epochs, low, high, color=style["color"], alpha=0.2, lw=0)
    last = float(curve.mean[-1])
    shown = f"{last:.3f}" if abs(last) < 1 else f"{last:.2f}" if abs(last) < 100 else f"{last:.1f}"
    place = {"transform": axes.get_yaxis_transform(), "va": "center", "fontsize": SIZE}
    return axes.text(1.01, last, shown, color=style["color"], **place)


def _legend(figure: Any, axes: Any) -> None:
    """One for all panels, below."""
    handles = {}
    for panel in axes.flat:
        for line, label in zip(*panel.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, line)
    longest = max(map(len, handles))
    columns = max(1, min(len(handles), 120 // (longest + 6)))
    place = {"loc": "outside lower center", "ncols": columns, "frameon": False}
    figure.legend(handles.values(), handles.keys(), fontsize="small", **place)


def spread_labels(axes: Any, texts: list[Any]) -> None:
    """Moves texts up and down until none is on another, as little as that takes: by isotonic
    regression of where they want to be, less the room that those below them need."""
    from scipy.optimize import isotonic_regression

    bottom, top = axes.get_ylim()
    inches = axes.get_position().height * axes.figure.get_figheight()
    room = (top - bottom) * SIZE * 1.25 / 72 / inches
    texts = sorted(texts, key=lambda text: text.get_position()[1])
    if not texts:
        return
    below = room * np.arange(len(texts))
    wanted = np.array([text.get_position()[1] for text in texts])
    found = isotonic_regression(wanted - below).x
    found = np.clip(found, bottom, max(bottom, top - below[-1])) + below
    for text, y in zip(texts, found, strict=True):
        text.set_y(y)
