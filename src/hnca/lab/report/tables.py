"""The tables of the page, and `results.csv`. To add a column, add its name and its cell to the two
functions of a table: `final_tables` and `_final_row`, say."""

import csv
import io
import os
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from .groups import Group, Interval, Panel
from .labels import METRICS, color, shown, words
from .paper import Comparison, compare, published_bounds
from .reading import Collection, RunRecord

MISSING = "-"
FILES = {
    "config": "config.json",
    "metrics": "metrics.jsonl",
    "summary": "summary.json",
    "curves": "curves.png",
}
FIRST = ["path", "status", "remarks", "task", "dataset", "layers", "estimator", "seed"]


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


class Table(NamedTuple):
    """A table with a title."""

    title: str
    columns: list[str]
    rows: list[list[Cell]]
    note: str = ""


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
    """Ours beside the paper's; none without a VAE."""
    if not (rows := compare(panels)):
        return None
    columns = ["layers", "method", "epochs", "seeds", "ours", "paper", "difference"]
    columns += ["do they agree?", "samples", "measured by", "data"]
    published = published_bounds()
    note = (
        f"Ours: mean over seeds and 95% confidence interval (none of one seed). The paper's: "
        f"{published.about}, after {published.epochs} epochs. {published.source}."
    )
    return Table("Test bounds beside the paper's", columns, list(map(_bounds_row, rows)), note)


def _bounds_row(row: Comparison) -> list[Cell]:
    paper, gap = row.paper, row.difference
    ours = row.ours.interval if row.ours else None
    style = "doubtful number" if row.differences else "number"
    printed = paper and f"{paper.mean:g} ± {paper.half:g}"
    return [
        number(row.layers),
        Cell(row.label, color=color(row.estimator)),
        number(row.epochs),
        number(ours and ours.n),
        spread(ours, 2)._replace(style=style),
        number(paper and paper.mean, printed or ""),
        number(gap, f"{gap:+.2f}" if gap is not None else "")._replace(style=style),
        Cell(row.verdict, style="text"),
        number(row.ours and row.ours.samples),
        Cell(row.ours.source if row.ours else MISSING),
        Cell(row.data),
    ]


def final_tables(panels: list[Panel]) -> list[Table]:
    """The last values of every group, a table for each task."""
    tables = []
    for task in dict.fromkeys(panel.key.task for panel in panels):
        ours = [panel for panel in panels if panel.key.task == task]
        groups = [(panel, group) for panel in ours for group in panel.groups if group.runs]
        metrics = [name for name in METRICS if any(group.final(name) for _, group in groups)]
        columns = ["layers", "method", "epochs", "seeds", *map(words, metrics)]
        rows = [_final_row(panel, group, metrics) for panel, group in groups]
        if rows:
            tables.append(Table(task, [*columns, "s/epoch", "data"], rows))
    return tables


def _final_row(panel: Panel, group: Group, metrics: list[str]) -> list[Cell]:
    seconds = group.curve("seconds")
    pace = float(seconds.mean.mean()) if seconds else None
    seeds = f"{len(group.runs)}"
    if group.unfinished:
        seeds += f" (and {len(group.unfinished)} unfinished)"
    return [
        number(panel.key.layers),
        Cell(group.label, color=color(group.estimator)),
        number(panel.key.epochs),
        number(len(group.runs), seeds),
        *(spread(group.final(name), METRICS[name][1]) for name in metrics),
        number(pace, "" if pace is None else f"{pace:.1f}"),
        Cell(panel.data),
    ]


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


def status(run: RunRecord) -> str:
    """In a word."""
    return "complete" if run.complete else "unfinished"


def _run_row(run: RunRecord, word: str, note: str, out: Path) -> list[Cell]:
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


def versions_table(runs: list[RunRecord]) -> Table:
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


def spreadsheet(collection: Collection) -> str:
    """The file's text. Columns that a run has nothing for are empty."""
    rows = [
        _csv_row(run, status(run), "" if run.complete else run.progress) for run in collection.runs
    ]
    for run, instead in collection.duplicates:
        rows.append(_csv_row(run, "duplicate", f"of {instead.path}"))
    for path, reason in collection.damaged:
        rows.append({"path": str(path), "status": "damaged", "remarks": reason})
    columns = dict.fromkeys([*FIRST, *(name for row in rows for name in row)])
    text = io.StringIO()
    writer = csv.DictWriter(text, list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _csv_row(run: RunRecord, word: str, remarks: str) -> dict[str, Any]:
    final = {name: value for name, value in run.final.items() if name not in ("epoch", "seconds")}
    settings = {name: shown(value) for name, value in run.settings.items()}
    return {
        "path": str(run.path),
        "status": word,
        "remarks": remarks,
        "task": run.experiment.name,
        "dataset": run.data,
        **settings,
        "seed": run.seed,
        "epochs_done": run.done,
        "seconds": run.summary.get("seconds"),
        **{f"final_{name}": value for name, value in final.items()},
        **{f"evaluation_{name}": value for name, value in run.evaluation.items()},
    }
