"""Who works on what, and what becomes of runs that fail."""

import time
import uuid
from collections import Counter, deque
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path
from typing import NamedTuple

from ..errors import first_line
from .engines import AbstractEngine
from .plans import PlannedRun
from .status import run_status
from .worker import Job, Order, Outcome, work

AGAIN = {"failed": 1, "died": 3}  # how often a run gets another try
PATIENCE, MOST = 2.0, 60.0  # seconds until a busy run is tried again: twice as many each time


class Event(NamedTuple):
    """Something that happened to a run: begun, done, failed, again, busy or stopped."""

    what: str
    run: PlannedRun
    message: str = ""


class Scheduler:
    """Hands runs to an engine's workers until none is left. What a run has done is on the disk, so
    it can be handed to anyone again, at any time.

    A run that fails by an error is tried once more, after the others; one whose worker dies, three
    times, since that may be no fault of its own. One that is busy, as another process is at work on
    it, waits until that is over: two sweeps in one directory share the work."""

    def __init__(
        self,
        runs: Sequence[PlannedRun],
        out: Path,
        engine: AbstractEngine,
        data_dir: Path | None = None,
        command: str = "",
        reporters: tuple[str, ...] = (),
    ):
        self.waiting = deque(runs)
        self.running: dict[Future, PlannedRun] = {}
        self.done: list[PlannedRun] = []
        self.failed: dict[PlannedRun, str] = {}
        self.stopping = False
        self._engine, self._data_dir, self._command = engine, data_dir, command
        self._reporters = reporters
        self._out = out.absolute()  # workers may have been started elsewhere
        self._tries: Counter[tuple[str, str]] = Counter()
        self._not_before: dict[PlannedRun, float] = {}
        self._patience: dict[PlannedRun, float] = {}
        self._stop = self._out / f".stop-{uuid.uuid4().hex}"

    @property
    def over(self) -> bool:
        """Whether nothing is left to wait for."""
        return not self.running and (self.stopping or not self.waiting)

    def turn(self, seconds: float) -> list[Event]:
        """Hands out runs, waits a moment, and takes in what has ended."""
        events = [] if self.stopping else self._hand_out()
        if not self.running:
            time.sleep(seconds)
        ended, _ = wait(self.running, seconds, FIRST_COMPLETED)
        for future in ended:
            events += self._take_in(future, self.running.pop(future))
        return events

    def stop(self) -> None:
        """Asks the workers to finish their epochs, and hands out nothing more."""
        self.stopping = True
        self._stop.touch()

    def close(self) -> None:
        """Leaves nothing behind, once the engine is closed, unless someone may still be at work
        who has to be told."""
        if not self.running or self._engine.ends_calls:
            self._stop.unlink(missing_ok=True)

    def _hand_out(self) -> list[Event]:
        events = []
        for _ in range(self._engine.workers - len(self.running)):
            now = time.monotonic()
            due = (run for run in self.waiting if self._not_before.get(run, 0.0) <= now)
            if (run := next(due, None)) is None:
                break
            self.waiting.remove(run)
            path = self._out / run.name
            order = Order.of(run.experiment)
            told = (self._command, self._reporters)
            job = Job(order, path, self._stop, self._data_dir, *told)
            self.running[self._engine.submit(work, job)] = run
            if not self._tries[run.name, "busy"]:
                events.append(Event("begun", run))
        return events

    def _take_in(self, future: Future, run: PlannedRun) -> list[Event]:
        if error := future.exception():
            return [self._failure("died", run, f"its worker died: {first_line(error)}")]
        outcome: Outcome = future.result()
        if outcome.ending == "failed":
            return [self._failure("failed", run, outcome.message)]
        if outcome.ending == "done":
            return [self._completion(run)]
        self.waiting.append(run)
        if outcome.ending == "busy":
            self._put_off(run)
            if self._tries[run.name, "busy"] > 1:
                return []  # told of once
        return [Event(outcome.ending, run, outcome.message)]

    def _completion(self, run: PlannedRun) -> Event:
        """Looks for itself: a worker may have another idea of where `out` is."""
        there = run_status(run, self._out)
        if there.state == "done":
            self.done.append(run)
            return Event("done", run)
        lost = f"its worker said that it is done, but it is not in {self._out}"
        why = there.why or "--out has to be on a file system that all machines share"
        return self._failure("failed", run, f"{lost}: {why}")

    def _put_off(self, run: PlannedRun) -> None:
        """Each time for longer."""
        patience = self._patience.get(run, PATIENCE)
        self._patience[run] = min(2 * patience, MOST)
        self._not_before[run] = time.monotonic() + patience
        self._tries[run.name, "busy"] += 1

    def _failure(self, kind: str, run: PlannedRun, message: str) -> Event:
        self._tries[run.name, kind] += 1
        if self._tries[run.name, kind] <= AGAIN[kind]:
            self.waiting.append(run)
            return Event("again", run, message)
        self.failed[run] = message
        return Event("failed", run, message)
