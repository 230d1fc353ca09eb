"""How far a run is, read from its directory: cheap, and the same for every engine."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ..errors import UserError
from ..experiments import experiment_from
from ..training import RunDirectory
from ..training.directory import FREE
from .runs import Run

TAIL = 1 << 16  # bytes: a few lines of metrics


class Progress(NamedTuple):
    """Where a run stands."""

    state: Literal["done", "begun", "missing", "unusable"]
    epochs: int = 0
    why: str = ""  # it cannot be used

    @property
    def open(self) -> bool:
        """Whether there is something left to do, and a way to do it."""
        return self.state in ("begun", "missing")

    def words(self, run: Run) -> str:
        """For people."""
        if self.state == "begun":
            return f"{self.epochs} of {run.experiment.epochs} epochs"
        return self.why or self.state


def progress(run: Run, out: Path) -> Progress:
    """What there is of a run already. It is done when its summary and its metrics both say so."""
    directory = RunDirectory(out / run.name)
    if not directory.config.exists():
        return Progress("missing")
    entries = recent(run, out)
    last = entries[-1]["epoch"] if entries else 0
    try:
        _check_same(run, directory)
        concluded = directory.read_summary().get("epochs") == last
    except UserError as error:
        return Progress("unusable", why=str(error))
    return Progress("done" if concluded and last >= run.experiment.epochs else "begun", last)


def recent(run: Run, out: Path) -> list[dict[str, Any]]:
    """The latest epochs; none if there is none yet, or none that can be read."""
    try:
        with open(RunDirectory(out / run.name).metrics, "rb") as file:
            start = max(0, file.seek(0, os.SEEK_END) - TAIL)
            file.seek(start)
            lines = file.read().split(b"\n")[:-1]  # what follows the last end of a line is half one
        entries = [json.loads(line) for line in (lines[1:] if start else lines)]
    except (OSError, ValueError):
        return []
    return [entry for entry in entries if _is_epoch(entry)]


def _is_epoch(entry: Any) -> bool:
    if not isinstance(entry, dict):
        return False
    return isinstance(entry.get("epoch"), int) and isinstance(entry.get("seconds"), int | float)


def _check_same(run: Run, directory: RunDirectory) -> None:
    """Training would refuse a directory with another run; this says so before."""
    there, wanted = experiment_from(directory.read_config()), run.experiment
    if type(there) is type(wanted):
        free = {name: getattr(wanted, name) for name in FREE}
        if replace(there, **free) == wanted:
            return
    raise UserError(f"{directory.path} holds a run with other settings: choose another --out")
