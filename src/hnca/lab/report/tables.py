"""The tables of the page. A row is a dictionary of its cells: to add a column, add a line to the
function that makes the rows of its table."""

import os
from collections import Counter, defaultdict
from pathlib import Path
from statistics import fmean
from typing import NamedTuple
from urllib.parse import quote

from .groups import Group, Interval, Panel, labels
from .labels import METRICS, VARIANCE, color, decimals, shown, words
from .paper import Comparison, compare_bounds, published_bounds
from .reading import Collection
from .record import RunRecord

MISSING = "-"
LINKED = {
    "config": "config.json",
    "metrics": "metrics.jsonl",
    "summary": "summary.json",
    "curves": "curves.png",
}
BESIDE = ("paper", "difference", "do they agree?")  # columns that the paper has a part in


class Cell(NamedTuple):
    """A cell of a table."""

    text: str
    value: float | int | str | None = None  # None: by the text
    links: tuple[tuple[str, str], ...] = ()  # words and addresses
    style: str = ""
    color: str = ""  # of a swatch before the text

    @property
    def key(self) -> float | int | str:
        """What to sort by."""
        return self.text if self.value is None else self.value


TableRow = dict[str, Cell]  # the cells, by the names of their columns


class Table(NamedTuple):
    """A table with a title."""

    title: str
    rows: list[TableRow]
    note: str = ""

    @property
    def columns(self) -> list[str]:
        """All that any row has, in the order in which they come."""
        return list(dict.fromkeys(name for row in self.rows for name in row))

    @property
    def cells(self) -> list[list[Cell]]:
        """Row by row; what a row does not have is missing."""
        missing = Cell(MISSING, "")
        return [[row.get(name, missing) for name in self.columns] for row in self.rows]


def number(value: float | int | None, shown: str = "") -> Cell:
    """A number, or the lack of one."""
    if value is None:
        return Cell(MISSING, "", style="number")
    return Cell(shown or f"{value}", value, style="number")


def spread(interval: Interval | None, decimals: int) -> Cell:
    """A mean with its confidence interval."""
    if interval is None:
        return number(None)
    return number(interval.mean, interval.shown(decimals))


def bounds_table(panels: list[Panel]) -> Table | None:
    """Ours, beside the paper's where some run compares with it; none without a VAE."""
    found = compare_bounds(panels)
    rows, note = list(map(_bounds_row, found)), "Mean over seeds and 95% confidence interval."
    if not any(row.compares for row in found):
        rows = [{k: cell for k, cell in row.items() if k not in BESIDE} for row in rows]
        return Table("Test bounds", rows, note) if rows else None
    published = published_bounds()
    note = (
        f"Ours: mean over seeds and 95% confidence interval (none of one seed). The paper's: "
        f"{published.about}, after {published.epochs} epochs. {published.source}. They agree if "
        "they differ by no more than means of so many seeds do in 95% of cases, going by the "
        "spread of the paper's seeds: by its half-width times √(1 + its seeds / our seeds)."
    )
    return Table("Test bounds beside the paper's", rows, note)


def _bounds_row(row: Comparison) -> TableRow:
    paper, gap = row.paper, row.difference
    ours = row.ours.interval if row.ours else None
    style = "doubtful number" if row.differences else "number"
    printed = paper and f"{paper.mean:g} ± {paper.half:g}"
    return {
        "layers": number(row.layers),
        "method": Cell(row.label, color=color(row.method), style="label"),
        "epochs": number(row.epochs),
        "seeds": number(ours and ours.n),
        "ours": spread(ours, 2)._replace(style=style),
        "paper": number(paper and paper.mean, printed or ""),
        "difference": number(gap, f"{gap:+.2f}" if gap is not None else "")._replace(style=style),
        "do they agree?": Cell(row.verdict, style="text"),
        "samples": number(row.ours and row.ours.samples),
        "measured by": Cell(row.ours.source if row.ours else MISSING),
        "data": Cell(row.data),
    }


def final_tables(panels: list[Panel]) -> list[Table]:
    """The last values of every group, a table for each task."""
    tables = []
    for task in dict.fromkeys(panel.key.task for panel in panels):
        ours = [panel for panel in panels if panel.key.task == task]
        groups = [(panel, group) for panel in ours for group in panel.groups if group.runs]
        metrics = _final_metrics([group for _, group in groups])
        told = labels([group for _, group in groups])
        rows = [
            _final_row(panel, group, label, metrics)
            for (panel, group), label in zip(groups, told, strict=True)
        ]
        if rows:
            tables.append(Table(task, rows))
    return tables


def _final_metrics(groups: list[Group]) -> list[str]:
    """Those that any group has: training and test, what is known first, the variance, and what is
    measured of each layer; but for the variance, of which there is enough."""
    there = dict.fromkeys(name for group in groups for name in group.any.final)
    named = [name for name in METRICS if name in there and name != VARIANCE]
    own = [name for name in there if name.startswith(("train_", "test_")) and name not in named]
    layers = [name for name in there if "/" in name and not name.startswith(VARIANCE)]
    layers = [name for name in layers if name not in own]
    return [*named, *own, *([VARIANCE] if VARIANCE in there else []), *layers]


def _final_row(panel: Panel, group: Group, label: str, metrics: list[str]) -> TableRow:
    pace = fmean(run.pace or 0 for run in group.runs)
    machines = dict.fromkeys(run.machine for run in group.runs if run.machine)
    seeds = f"{len(group.runs)}"
    if group.unfinished:
        seeds += f" (and {len(group.unfinished)} unfinished)"
    found = {name: group.final(name) for name in metrics}
    return {
        "layers": number(panel.key.layers),
        "method": Cell(label, color=color(group.method), style="label"),
        "epochs": number(panel.key.epochs),
        "seeds": number(len(group.runs), seeds),
        **{
            words(name): spread(value, decimals(name, value.mean if value else 0.0))
            for name, value in found.items()
        },
        "s/epoch": number(pace, seconds(pace)),
        "machine": Cell("; ".join(machines) or MISSING, style="text"),
        "data": Cell(panel.data),
    }


def runs_table(collection: Collection, panels: list[Panel], out: Path) -> Table:
    """Every run that was found, what became of it, and its files. `out`: where the page is."""
    told, rows = _run_labels(panels), []
    for run in collection.runs:
        note = "" if run.complete else f"{run.progress}; not in any mean"
        rows.append(_run_row(run, told[run], status(run), note, out))
    for each in collection.duplicates:
        note = f"same settings and seed as {each.instead.path}, which counts"
        if each.disagreement:
            note += f"; but with DIFFERENT results: {each.disagreement}"
        rows.append(_run_row(each.run, told[each.instead], "duplicate", note, out))
    for path, reason in collection.damaged:
        rows.append(_found_row(path, "damaged", reason, out))
    return Table("Runs", rows)


def _run_labels(panels: list[Panel]) -> dict[RunRecord, tuple[str, str]]:
    """Of each run, the method with what else tells it from others of its task, and the data."""
    found: dict[RunRecord, tuple[str, str]] = {}
    for task in dict.fromkeys(panel.key.task for panel in panels):
        ours = [(p.data, group) for p in panels if p.key.task == task for group in p.groups]
        told = labels([group for _, group in ours])
        for (data, group), label in zip(ours, told, strict=True):
            found |= dict.fromkeys(group.runs + group.unfinished, (label, data))
    return found


def seconds(pace: float | None) -> str:
    """Of an epoch."""
    return "" if pace is None else f"{pace:.3g}" if pace < 10 else f"{pace:.1f}"


def _run_row(run: RunRecord, told: tuple[str, str], word: str, note: str, out: Path) -> TableRow:
    label, data = told
    found = _found_row(run.path, word, note, out)
    files = found.pop("files")
    return {
        **found,
        "task": Cell(run.task),
        "layers": number(run.layers),
        "method": Cell(label, color=color(run.method), style="label"),
        "seed": number(run.seed),
        "epochs": number(run.done),
        "s/epoch": number(run.pace, seconds(run.pace)),
        "machine": Cell(run.machine or MISSING, style="text"),
        "files": files,
        "data": Cell(data),
    }


def _found_row(path: Path, word: str, note: str, out: Path) -> TableRow:
    """What there is to say of any directory, whether it can be read or not."""
    return {
        "run": Cell(path.name, os.path.relpath(path, out), style="name"),
        "status": Cell(word, style=f"status {word}"),
        "remarks": Cell(note, style="text"),
        "files": _links(path, out),
    }


def status(run: RunRecord) -> str:
    """In a word."""
    return "complete" if run.complete else "unfinished"


def _links(path: Path, out: Path) -> Cell:
    """To what there is, from the page's place."""
    there = quote(Path(os.path.relpath(path, out)).as_posix())
    links = [(word, f"{there}/{file}") for word, file in LINKED.items() if (path / file).exists()]
    return Cell("", len(links), tuple(links), "links")


def settings_tables(panels: list[Panel]) -> list[Table]:
    """For each task every setting, with all the values that it has."""
    tables = []
    for task in dict.fromkeys(panel.key.task for panel in panels):
        groups = [group for panel in panels if panel.key.task == task for group in panel.groups]
        values: dict[str, list[str]] = defaultdict(list)
        for group in groups:
            for name, value in group.settings.items():
                values[name.replace("_", " ")].append(shown(value))
        seeds = sorted({run.seed for group in groups for run in group.runs + group.unfinished})
        values["seed"] = [str(seed) for seed in seeds]
        rows = [
            {"setting": Cell(name), "values": Cell("; ".join(dict.fromkeys(all)), style="text")}
            for name, all in values.items()
        ]
        tables.append(Table(task, rows))
    return tables


def versions_table(runs: list[RunRecord]) -> Table:
    """Software, devices and data, and how many runs had them."""
    count: Counter[tuple[str, str]] = Counter()
    for run in runs:
        found = (item for each in run.environments for item in each.items())
        count.update(list(dict.fromkeys((name, str(value)) for name, value in found)))
        if run.data:
            count["data", f"{run.data}, SHA-256 {run.fingerprint[:12]}..."] += 1
    order = list(dict.fromkeys(name for name, _ in count))
    found = sorted(count.items(), key=lambda item: order.index(item[0][0]))
    rows = [
        {"what": Cell(name), "which": Cell(value), "runs": number(runs)}
        for (name, value), runs in found
    ]
    return Table("Versions, devices and data", rows)
