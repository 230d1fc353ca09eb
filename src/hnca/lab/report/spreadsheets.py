"""The spreadsheets of a report: `results.csv` has a row for each run, `epochs.csv` one for each run
and epoch."""

import csv
import io
import re
from collections.abc import Iterator
from typing import Any

from .labels import shown
from .reading import Collection
from .record import RunRecord
from .tables import status

FIRST = ["path", "status", "remarks", "task", "dataset", "layers", "estimator", "seed"]
FORMULA = tuple("=+-@")  # how a formula begins
COUNTS = ("epoch", "step")


def results(collection: Collection) -> str:
    """The text of `results.csv`. Columns that a run has nothing for are empty."""
    rows = []
    for run in collection.runs:
        rows.append(_result(run, status(run), "" if run.complete else run.progress))
    for each in collection.duplicates:
        but = each.disagreement and f", with different results: {each.disagreement}"
        rows.append(_result(each.run, "duplicate", f"of {each.instead.path}{but}"))
    for path, reason in collection.damaged:
        rows.append({"path": str(path), "status": "damaged", "remarks": reason})
    return _text(rows, FIRST)


def epochs(collection: Collection) -> str:
    """The text of `epochs.csv`. What else there is to know of a run is in `results.csv`, in the row
    of the same path."""
    runs = [(run, status(run)) for run in collection.runs]
    runs += [(each.run, "duplicate") for each in collection.duplicates]
    rows = [row for run, word in runs for row in _epochs(run, word)]
    return _text(rows, [name for name in FIRST if name not in ("remarks", "layers")])


def _text(rows: list[dict[str, Any]], first: list[str]) -> str:
    columns = list(dict.fromkeys([*first, *(name for row in rows for name in row)]))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(_cell, columns))
    writer.writerows([_cell(row.get(name, "")) for name in columns] for row in rows)
    return text.getvalue()


def _cell(value: Any) -> Any:
    """Numbers as they are, texts in one line. A text that a spreadsheet would take for a formula,
    and run, gets a quote before it."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    text = re.sub(r"[\r\n]+", " ", shown(value))
    return f"'{text}" if text.lstrip().startswith(FORMULA) else text


def _identity(run: RunRecord, word: str) -> dict[str, Any]:
    """What every row says of its run."""
    return {
        "path": str(run.path),
        "status": word,
        "task": run.task,
        "dataset": run.data,
        "seed": run.seed,
    }


def _epochs(run: RunRecord, word: str) -> Iterator[dict[str, Any]]:
    """A row for each epoch; metrics that were not measured in it are left out."""
    rows: dict[int, dict[str, Any]] = {}
    for name, curve in run.curves.items():
        for epoch, value in zip(curve.epochs.tolist(), curve.values.tolist(), strict=True):
            rows.setdefault(epoch, {})[name] = int(value) if name in COUNTS else value
    told = _identity(run, word) | {"estimator": run.method}
    return (told | row for row in rows.values())


def _result(run: RunRecord, word: str, remarks: str) -> dict[str, Any]:
    final = {name: value for name, value in run.final.items() if name not in ("epoch", "seconds")}
    first = _identity(run, word) | {"remarks": remarks}
    last = {
        "epochs_done": run.done,
        "seconds": run.summary.get("seconds", ""),
        "seconds_per_epoch": "" if run.pace is None else run.pace,
        "machine": run.machine,
    }
    settings = {
        f"setting_{name}" if name in first | last else name: value
        for name, value in run.settings.items()
    }
    return {
        **first,
        **settings,
        **last,
        **{f"final_{name}": value for name, value in final.items()},
        **{f"evaluation_{name}": value for name, value in run.evaluation.items()},
    }
