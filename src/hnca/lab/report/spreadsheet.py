"""`results.csv`: a row for each run that was found."""

import csv
import io
from typing import Any

from .inventory import status
from .reading import Collection
from .run import Run
from .words import shown

FIRST = ["path", "status", "remarks", "task", "dataset", "layers", "estimator", "seed"]


def results(collection: Collection) -> str:
    """The file's text. Columns that a run has nothing for are empty."""
    rows = [_row(run, status(run), "" if run.complete else run.progress) for run in collection.runs]
    for run, instead in collection.duplicates:
        rows.append(_row(run, "duplicate", f"of {instead.path}"))
    for path, reason in collection.damaged:
        rows.append({"path": str(path), "status": "damaged", "remarks": reason})
    columns = dict.fromkeys([*FIRST, *(name for row in rows for name in row)])
    text = io.StringIO()
    writer = csv.DictWriter(text, list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _row(run: Run, word: str, remarks: str) -> dict[str, Any]:
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
