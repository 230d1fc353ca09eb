"""Which figures there are, and what is in each: as in the paper."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from .grouping import Group, Panel


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
