"""The tables of a report: test bounds, last values, runs, settings, versions."""

import os
from collections import Counter
from pathlib import Path
from urllib.parse import quote

from .colors import color
from .comparison import Comparison, compare
from .grouping import VARIANCE, Group, Panel, shown
from .paper import published_bounds
from .reading import Collection, Run
from .table import Cell, Table, number, spread

METRICS = {
    "train_accuracy": ("training accuracy", 4),
    "test_accuracy": ("test accuracy", 4),
    "train_elbo": ("training ELBO", 2),
    "test_elbo": ("test ELBO", 2),
    "test_bound": ("test bound", 2),
    VARIANCE: ("ln variance", 2),
}
"""The words for a metric, and its decimals."""


def words(metric: str) -> str:
    """What a metric is called on the page."""
    if metric.startswith(f"{VARIANCE}/"):
        return f"ln variance, {metric.partition('/')[2]}"
    return METRICS[metric][0] if metric in METRICS else metric.replace("_", " ")


def bounds_table(panels: list[Panel]) -> Table | None:
    """Ours beside the paper's; none without a VAE."""
    if not (rows := compare(panels)):
        return None
    columns = ["data", "layers", "method", "epochs", "seeds", "ours", "samples", "measured by"]
    columns += ["paper", "ours − paper", "do they agree?"]
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
        Cell(row.data),
        number(row.layers),
        Cell(row.label, color=color(row.estimator)),
        number(row.epochs),
        number(ours and ours.n),
        spread(ours, 2)._replace(style=style),
        number(row.ours and row.ours.samples),
        Cell(row.ours.source if row.ours else "–"),
        number(paper and paper.mean, printed or ""),
        number(gap, f"{gap:+.2f}" if gap is not None else "")._replace(style=style),
        Cell(row.verdict),
    ]


def final_tables(panels: list[Panel]) -> list[Table]:
    """The last values of every group, a table for each task."""
    tables = []
    for task in dict.fromkeys(panel.key.task for panel in panels):
        ours = [panel for panel in panels if panel.key.task == task]
        groups = [(panel, group) for panel in ours for group in panel.groups if group.runs]
        metrics = [name for name in METRICS if any(group.final(name) for _, group in groups)]
        columns = ["data", "layers", "method", "epochs", "seeds", *map(words, metrics)]
        rows = [_final_row(panel, group, metrics) for panel, group in groups]
        if rows:
            tables.append(Table(task, [*columns, "seconds an epoch"], rows))
    return tables


def _final_row(panel: Panel, group: Group, metrics: list[str]) -> list[Cell]:
    seconds = sum(run.summary["seconds"] for run in group.runs) / len(group.runs)
    pace = seconds / panel.key.epochs
    seeds = f"{len(group.runs)}"
    if group.unfinished:
        seeds += f" (and {len(group.unfinished)} unfinished)"
    return [
        Cell(panel.data),
        number(panel.key.layers),
        Cell(group.label, color=color(group.estimator)),
        number(panel.key.epochs),
        number(len(group.runs), seeds),
        *(spread(group.final(name), METRICS[name][1]) for name in metrics),
        number(pace, f"{pace:.1f}"),
    ]


FILES = ("config.json", "metrics.jsonl", "summary.json", "curves.png")


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
        blank = [Cell("–", "")] * 5
        rows.append([_name(path, out), _status("damaged"), Cell(reason), *blank, _links(path, out)])
    columns = ["run", "status", "remarks", "task", "data", "method", "seed", "epochs", "files"]
    return Table("Runs", columns, rows)


def status(run: Run) -> str:
    """In a word."""
    return "complete" if run.complete else "unfinished"


def _run_row(run: Run, word: str, note: str, out: Path) -> list[Cell]:
    return [
        _name(run.path, out),
        _status(word),
        Cell(note),
        Cell(run.experiment.title),
        Cell(run.data),
        Cell(run.experiment.estimator, color=color(run.experiment.estimator)),
        number(run.seed),
        number(run.done),
        _links(run.path, out),
    ]


def _status(word: str) -> Cell:
    return Cell(word, style=f"status {word}")


def _name(path: Path, out: Path) -> Cell:
    return Cell(path.name, os.path.relpath(path, out))


def _links(path: Path, out: Path) -> Cell:
    """To what there is, from the page's place."""
    there = quote(Path(os.path.relpath(path, out)).as_posix())
    links = [(name, f"{there}/{quote(name)}") for name in FILES if (path / name).exists()]
    return Cell("", len(links), tuple(links), "links")


def settings_tables(panels: list[Panel]) -> list[Table]:
    """For each task every setting, with all the values that it has."""
    tables = []
    for task in dict.fromkeys(panel.key.task for panel in panels):
        groups = [group for panel in panels if panel.key.task == task for group in panel.groups]
        rows = []
        for name in groups[0].settings:
            values = dict.fromkeys(shown(group.settings[name]) for group in groups)
            rows.append([Cell(name.replace("_", " ")), Cell("; ".join(values))])
        seeds = sorted({run.seed for group in groups for run in group.runs + group.unfinished})
        rows.append([Cell("seed"), Cell("; ".join(map(str, seeds)))])
        tables.append(Table(task, ["setting", "values"], rows))
    return tables


def versions_table(runs: list[Run]) -> Table:
    """Software, devices and data, and how many runs had them."""
    count: Counter[tuple[str, str]] = Counter()
    for run in runs:
        count.update((name, str(value)) for name, value in run.versions.items())
        count["data", f"{run.data}, SHA-256 {run.fingerprint}"] += 1
    rows = [[Cell(name), Cell(value), number(runs)] for (name, value), runs in count.items()]
    return Table("Versions, devices and data", ["what", "which", "runs"], rows)
