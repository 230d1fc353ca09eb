"""What is in a report: its runs and what became of each, their settings, versions and data."""

import os
from collections import Counter
from pathlib import Path
from urllib.parse import quote

from .colors import color
from .grouping import Panel
from .reading import Collection
from .run import Run
from .table import MISSING, Cell, Table, number
from .words import shown

FILES = {
    "config": "config.json",
    "metrics": "metrics.jsonl",
    "summary": "summary.json",
    "curves": "curves.png",
}


def runs_table(collection: Collection, out: Path) -> Table:
    """Every run that was found, what became of it, and its files. `out`: where the page is."""
    rows = []
    for run in collection.runs:
        note = "" if run.complete else f"{run.progress}; not in any mean"
        rows.append(_run_row(run, status(run), note, out))
    for run, instead in collection.duplicates:
        note = f"same settings and seed as {instead.path}, which counts"
        rows.append(_run_row(run, "duplicate", note, out))
    for path, reason in collection.damaged:
        about = [_name(path, out), _status("damaged"), Cell(reason, style="text")]
        rows.append([*about, *[Cell(MISSING, "")] * 5, _links(path, out), Cell(MISSING, "")])
    columns = ["run", "status", "remarks", "task", "layers", "method", "seed", "epochs"]
    return Table("Runs", [*columns, "files", "data"], rows)


def status(run: Run) -> str:
    """In a word."""
    return "complete" if run.complete else "unfinished"


def _run_row(run: Run, word: str, note: str, out: Path) -> list[Cell]:
    return [
        _name(run.path, out),
        _status(word),
        Cell(note, style="text"),
        Cell(run.experiment.name),
        number(run.settings.get("layers", 1)),
        Cell(run.experiment.estimator, color=color(run.experiment.estimator)),
        number(run.seed),
        number(run.done),
        _links(run.path, out),
        Cell(run.data),
    ]


def _status(word: str) -> Cell:
    return Cell(word, style=f"status {word}")


def _name(path: Path, out: Path) -> Cell:
    return Cell(path.name, os.path.relpath(path, out), style="name")


def _links(path: Path, out: Path) -> Cell:
    """To what there is, from the page's place."""
    there = quote(Path(os.path.relpath(path, out)).as_posix())
    links = [(word, f"{there}/{file}") for word, file in FILES.items() if (path / file).exists()]
    return Cell("", len(links), tuple(links), "links")


def settings_tables(panels: list[Panel]) -> list[Table]:
    """For each task every setting, with all the values that it has."""
    tables = []
    for task in dict.fromkeys(panel.key.task for panel in panels):
        groups = [group for panel in panels if panel.key.task == task for group in panel.groups]
        rows = []
        for name in groups[0].settings:
            values = dict.fromkeys(shown(group.settings[name]) for group in groups)
            rows.append([Cell(name.replace("_", " ")), Cell("; ".join(values), style="text")])
        seeds = sorted({run.seed for group in groups for run in group.runs + group.unfinished})
        rows.append([Cell("seed"), Cell("; ".join(map(str, seeds)))])
        tables.append(Table(task, ["setting", "values"], rows))
    return tables


def versions_table(runs: list[Run]) -> Table:
    """Software, devices and data, and how many runs had them."""
    count: Counter[tuple[str, str]] = Counter()
    for run in runs:
        found = (item for each in run.environments for item in each.items())
        count.update(list(dict.fromkeys((name, str(value)) for name, value in found)))
        count["data", f"{run.data}, SHA-256 {run.fingerprint[:12]}..."] += 1
    order = list(dict.fromkeys(name for name, _ in count))
    found = sorted(count.items(), key=lambda item: order.index(item[0][0]))
    rows = [[Cell(name), Cell(value), number(runs)] for (name, value), runs in found]
    return Table("Versions, devices and data", ["what", "which", "runs"], rows)
