"""How a sweep shows itself: a table on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ..sweep import Event, Pace, PlannedRun, Scheduler, latest_epochs
from .progress import clock

ROWS = 20  # of runs under way; a cluster may have more


class EventLines:
    """A line for each thing that happens: for logs."""

    def __init__(self, scheduler: Scheduler, out: Path, done_before: int):
        self._scheduler, self._out, self._done_before = scheduler, out, done_before
        self._pace, self._began = Pace(), time.monotonic()
        self._latest: dict[PlannedRun, dict[str, Any]] = {}
        self._look(scheduler.waiting)
        self._before = {run: self._epochs(run) for run in scheduler.waiting}

    def __enter__(self) -> "EventLines":
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def say(self, message: str) -> None:
        print(message, flush=True)

    def update(self, events: Sequence[Event]) -> None:
        """Tells what happened."""
        self._look([*self._scheduler.running.values(), *(event.run for event in events)])
        for event in events:
            facts = self._facts(event.run) if event.what == "done" else event.message
            self.say(f"{event.what:8}{event.run.name}{facts and f': {facts}'}")
            if event.what in ("done", "failed"):
                self.say(f"        {self._counts()}")

    def _look(self, runs: Iterable[PlannedRun]) -> None:
        """Reads how far these runs are."""
        for run in runs:
            if entries := latest_epochs(run, self._out):
                self._latest[run] = entries[-1]
                self._pace.learn(run, entries)

    def _epochs(self, run: PlannedRun) -> int:
        return min(self._latest.get(run, {}).get("epoch", 0), run.experiment.epochs)

    def _facts(self, run: PlannedRun) -> str:
        """The last value of the objective."""
        name = f"train_{run.experiment.measure}"
        value = self._latest.get(run, {}).get(name)
        return f"{name} {value:.4g}" if isinstance(value, float) else ""

    def _counts(self) -> str:
        """How many of each, and the time left."""
        scheduler = self._scheduler
        counts = {
            "done": self._done_before + len(scheduler.done),
            "running": len(scheduler.running),
            "waiting": len(scheduler.waiting),
            "failed": len(scheduler.failed),
        }
        left = self._time_left()
        words = [f"{count} {name}" for name, count in counts.items()]
        return "  ".join([*words, f"left {'?' if left is None else clock(left)}"])

    def _time_left(self) -> float | None:
        """At the pace of this sweep so far; an epoch counts by the seconds that its like takes."""
        did = left = 0.0
        for run, before in self._before.items():
            weight = self._pace.epoch(run.experiment) or 0.0
            did += weight * (self._epochs(run) - before)
            if run not in self._scheduler.failed:
                left += weight * (run.experiment.epochs - self._epochs(run))
        return left / did * (time.monotonic() - self._began) if did > 0 else None


class EventTable(EventLines):
    """A row for each run under way, above the counts."""

    def __init__(self, scheduler: Scheduler, out: Path, done_before: int):
        super().__init__(scheduler, out, done_before)
        self._console = Console()
        self._live = Live(console=self._console, auto_refresh=False, transient=True)

    def __enter__(self) -> "EventTable":
        self._live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._live.stop()

    def say(self, message: str) -> None:
        self._console.print(message, highlight=False, markup=False, soft_wrap=True)

    def update(self, events: Sequence[Event]) -> None:
        self._look([*self._scheduler.running.values(), *(event.run for event in events)])
        for event in events:
            if event.what in ("failed", "again"):
                self.say(f"{event.what}: {event.run.name}: {event.message}")
        rows = Table("running", "epoch", "", box=None, header_style="bold")
        for run in list(self._scheduler.running.values())[:ROWS]:
            rows.add_row(run.name, f"{self._epochs(run)}/{run.experiment.epochs}", self._facts(run))
        counts = Text(self._counts(), no_wrap=True, overflow="ellipsis")
        self._live.update(Group(rows, counts), refresh=True)


def display(scheduler: Scheduler, out: Path, done_before: int) -> EventLines:
    """A table where there is a terminal to draw it on."""
    return (EventTable if sys.stdout.isatty() else EventLines)(scheduler, out, done_before)
