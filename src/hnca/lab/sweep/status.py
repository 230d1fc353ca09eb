"""How far runs are, and how long the rest will take.

The first is read from their directories: cheap, and the same for every engine. The second goes by
what was measured, in runs that are there or in a few steps.
"""

import json
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import fields, replace
from pathlib import Path
from statistics import fmean, mean
from typing import Any, Literal, NamedTuple

from ..errors import UserError, first_line
from ..experiments import AbstractExperiment, experiment_from
from ..training import RunDirectory
from .engines import AbstractEngine
from .plans import PlannedRun
from .worker import Measurement, Order, measure

TAIL = 1 << 16  # bytes: a few lines of metrics
PROGRAMS = 8  # measured at most; the others are taken to be like them


class RunStatus(NamedTuple):
    """Where a run stands."""

    state: Literal["done", "begun", "missing", "unusable"]
    epochs: int = 0
    why: str = ""  # it cannot be used

    @property
    def open(self) -> bool:
        """Whether there is something left to do, and a way to do it."""
        return self.state in ("begun", "missing")

    def words(self, run: PlannedRun) -> str:
        """For people."""
        if self.state == "begun":
            return f"{self.epochs} of {run.experiment.epochs} epochs"
        return self.why or self.state


def _directory(run: PlannedRun, out: Path) -> RunDirectory | None:
    """None if it is not there. Most of a big plan are not, and a glance is all they should cost."""
    path = os.path.join(out, run.name)
    return RunDirectory(Path(path)) if os.path.exists(path) else None


def run_status(run: PlannedRun, out: Path) -> RunStatus:
    """What there is of a run already. It is done when its summary and its metrics both say so."""
    directory = _directory(run, out)
    if directory is None or not directory.config.exists():
        return RunStatus("missing")
    entries = latest_epochs(run, out)
    last = entries[-1]["epoch"] if entries else 0
    try:
        _check_same(run, directory)
        concluded = directory.read_summary().get("epochs") == last
    except UserError as error:
        return RunStatus("unusable", why=str(error))
    return RunStatus("done" if concluded and last >= run.experiment.epochs else "begun", last)


def latest_epochs(run: PlannedRun, out: Path) -> list[dict[str, Any]]:
    """The latest epochs; none if there is none yet, or none that can be read."""
    if (directory := _directory(run, out)) is None:
        return []
    try:
        with open(directory.metrics, "rb") as file:
            start = max(0, file.seek(0, os.SEEK_END) - TAIL)
            file.seek(start)
            lines = file.read().split(b"\n")[:-1]  # what follows the last end of a line is half one
        entries = [json.loads(line) for line in (lines[1:] if start else lines)]
    except (OSError, ValueError):
        return []
    return [entry for entry in entries if _is_epoch(entry)]


def final_metrics(run: PlannedRun, out: Path) -> dict[str, float]:
    """What the summary of a run says of the objective, in training and in tests."""
    try:
        final = RunDirectory(out / run.name).read_summary().get("final")
    except (OSError, UserError):
        return {}
    pairs = final.items() if isinstance(final, dict) else ()
    measured = ((name, value) for name, value in pairs if name.startswith(("train_", "test_")))
    return {name: value for name, value in measured if isinstance(value, float)}


def _is_epoch(entry: Any) -> bool:
    if not isinstance(entry, dict):
        return False
    return isinstance(entry.get("epoch"), int) and isinstance(entry.get("seconds"), int | float)


def _check_same(run: PlannedRun, directory: RunDirectory) -> None:
    """Training would refuse a directory with another run; this says so before."""
    wanted = run.experiment
    there = experiment_from(directory.read_config(), type(wanted))
    names = [each.name for each in fields(wanted) if each.name in wanted.free]
    free = {name: getattr(wanted, name) for name in names}
    if replace(there, **free) == wanted:
        return
    raise UserError(f"{directory.path} holds a run with other settings: choose another --out")


def program_of(experiment: AbstractExperiment) -> AbstractExperiment:
    """What runs have in common that differ by their seeds and epochs only."""
    return replace(experiment, seed=0, epochs=1)


class Pace:
    """Seconds of an epoch of each program: as measured, or else like others of its task."""

    def __init__(self) -> None:
        self._epochs: dict[AbstractExperiment, float] = {}
        self._starts: list[float] = []
        self._alike: dict[type, float] = {}  # means by task, found when they are asked for

    def learn(self, run: PlannedRun, entries: Sequence[dict[str, Any]]) -> None:
        """From the latest epochs of a run."""
        if entries:
            self._set(run.experiment, fmean(entry["seconds"] for entry in entries))

    def put(self, experiment: AbstractExperiment, measured: Measurement) -> None:
        """From a few measured steps."""
        self._set(experiment, measured.epoch)
        self._starts.append(measured.start)

    def _set(self, experiment: AbstractExperiment, seconds: float) -> None:
        self._epochs[program_of(experiment)] = seconds
        self._alike.clear()

    def epoch(self, experiment: AbstractExperiment) -> float | None:
        """None if nothing has been measured yet."""
        known, kind = self._epochs, type(experiment)
        if not known:
            return None
        if (same := program_of(experiment)) in known:
            return known[same]
        if kind not in self._alike:
            alike = [seconds for each, seconds in known.items() if type(each) is kind]
            self._alike[kind] = mean(alike or known.values())
        return self._alike[kind]

    def unknown(self, experiments: Iterable[AbstractExperiment]) -> list[AbstractExperiment]:
        """The programs among these that were not measured."""
        programs = dict.fromkeys(map(program_of, experiments))
        return [each for each in programs if each not in self._epochs]

    def total(self, left: Sequence[tuple[PlannedRun, int]], workers: int) -> float | None:
        """Seconds for runs with so many epochs left each, shared out evenly; None if nothing has
        been measured."""
        if left and not self._epochs:
            return None
        start = mean(self._starts) if self._starts else 0.0
        costs = [start + epochs * (self.epoch(run.experiment) or 0.0) for run, epochs in left]
        return max(sum(costs) / workers, max(costs, default=0.0))


class Outlook:
    """How far the runs of a sweep are, and how long the rest takes at its pace so far. An epoch
    counts by the seconds that its like takes. Sums are kept for each program, so that an answer
    costs little where there are many runs."""

    def __init__(self, runs: Collection[PlannedRun], out: Path):
        self._out, self._pace, self._began = out, Pace(), time.monotonic()
        self._latest: dict[PlannedRun, dict[str, Any]] = {}
        self._left: Counter[AbstractExperiment] = Counter()  # epochs of each program
        self._did: Counter[AbstractExperiment] = Counter()
        for run in runs:
            self._left[program_of(run.experiment)] += run.experiment.epochs
        self.look(runs)
        self._did.clear()  # that was before

    def look(self, runs: Iterable[PlannedRun]) -> None:
        """Reads how far these runs are."""
        for run in runs:
            if entries := latest_epochs(run, self._out):
                before = self.epochs(run)
                self._latest[run] = entries[-1]
                self._pace.learn(run, entries)
                self._did[program_of(run.experiment)] += self.epochs(run) - before
                self._left[program_of(run.experiment)] -= self.epochs(run) - before

    def give_up(self, run: PlannedRun) -> None:
        """Counts no more on a run that has failed."""
        self._left[program_of(run.experiment)] -= run.experiment.epochs - self.epochs(run)

    def latest(self, run: PlannedRun) -> dict[str, Any]:
        """What was measured in the last epoch; nothing before the first one."""
        return self._latest.get(run, {})

    def epochs(self, run: PlannedRun) -> int:
        """How many are done, of those that are wanted."""
        return min(self.latest(run).get("epoch", 0), run.experiment.epochs)

    def seconds(self) -> float | None:
        """That are left; None before the first epoch."""
        did = sum(count * (self._pace.epoch(each) or 0.0) for each, count in self._did.items())
        left = sum(count * (self._pace.epoch(each) or 0.0) for each, count in self._left.items())
        return left / did * (time.monotonic() - self._began) if did > 0 else None


def measure_programs(
    pace: Pace,
    experiments: Sequence[AbstractExperiment],
    engine: AbstractEngine,
    data_dir: Path | None,
    tell: Callable[[str], None],
) -> None:
    """Measures some programs of those that are unknown, on the workers that will train them."""
    unknown = pace.unknown(experiments)
    chosen = unknown[:: max(1, math.ceil(len(unknown) / PROGRAMS))]
    if chosen:
        tell(f"measuring some steps of {len(chosen)} of {len(unknown):,} programs")
    waiting, running = list(chosen), {}
    while waiting or running:
        while waiting and len(running) < engine.workers:
            experiment = waiting.pop(0)
            running[engine.submit(measure, Order.of(experiment), data_dir)] = experiment
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            experiment = running.pop(future)
            done = len(chosen) - len(waiting) - len(running)
            if error := future.exception():
                tell(f"{experiment.title} cannot be measured: {first_line(error)}")
            else:
                pace.put(experiment, future.result())
                tell(f"measured {done} of {len(chosen)} programs: {experiment.title}")
