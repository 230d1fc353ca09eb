"""How a sweep shows itself: a table on a terminal, plain lines elsewhere."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ..sweep import Event, Outlook, PlannedRun, Scheduler, final_metrics
from .progress import clock

ROWS = 20  # of runs under way; a cluster may have more


@runtime_checkable
class Show(Protocol):
    """What a user sees of runs under way, from `with` to its end."""

    def __enter__(self) -> Any:
        """It begins, and is what is shown."""

    def __exit__(self, *exception: object) -> None:
        """It ends."""

    def say(self, message: str) -> None:
        """A line."""

    def update(self, events: Sequence[Event]) -> None:
        """Something has happened, or a moment is over."""


class EventLines:
    """A line for each thing that happens: for logs."""

    def __init__(self, scheduler: Scheduler, out: Path, done_before: int):
        self._scheduler, self._out, self._done_before = scheduler, out, done_before
        self._outlook = Outlook(scheduler.waiting, out)

    def __enter__(self) -> "EventLines":
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def say(self, message: str) -> None:
        print(message, flush=True)

    def update(self, events: Sequence[Event]) -> None:
        """Tells what happened."""
        self._take_in(events)
        for event in events:
            facts = self._results(event.run) if event.what == "done" else event.message
            self.say(f"{event.what:8}{event.run.name}{facts and f': {facts}'}")
            if event.what in ("done", "failed"):
                self.say(f"        {self._counts()}")

    def _take_in(self, events: Sequence[Event]) -> None:
        self._outlook.look([*self._scheduler.running.values(), *(event.run for event in events)])
        for event in events:
            if event.what == "failed":
                self._outlook.give_up(event.run)

    def _results(self, run: PlannedRun) -> str:
        """What came of a run that is done."""
        final = final_metrics(run, self._out)
        return ", ".join(f"{name} {value:.4g}" for name, value in final.items())

    def _counts(self) -> str:
        """How many of each, and the time left once it can be told."""
        scheduler, left = self._scheduler, self._outlook.seconds()
        counts = {
            "done": self._done_before + len(scheduler.done),
            "running": len(scheduler.running),
            "waiting": len(scheduler.waiting),
            "failed": len(scheduler.failed),
        }
        words = [f"{count} {name}" for name, count in counts.items()]
        return "  ".join(words if left is None else [*words, f"left {clock(left)}"])


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
        self._take_in(events)
        for event in events:
            if event.what in ("failed", "again"):
                self.say(f"{event.what}: {event.run.name}: {event.message}")
        rows = Table("running", "epoch", "", box=None, header_style="bold")
        for run in list(self._scheduler.running.values())[:ROWS]:
            epochs = f"{self._outlook.epochs(run)}/{run.experiment.epochs}"
            rows.add_row(run.name, epochs, self._facts(run))
        counts = Text(self._counts(), no_wrap=True, overflow="ellipsis")
        self._live.update(Group(rows, counts), refresh=True)

    def _facts(self, run: PlannedRun) -> str:
        """The last value of the objective, and whether there is more to come."""
        name, latest = f"train_{run.experiment.measure}", self._outlook.latest(run)
        if not latest:
            return "compiling, or in its first epoch"
        value = latest.get(name)
        facts = f"{name} {value:.4g}" if isinstance(value, float) else ""
        last = self._outlook.epochs(run) == run.experiment.epochs
        return f"{facts}  its last test" if last else facts


def display(scheduler: Scheduler, out: Path, done_before: int) -> EventLines:
    """A table where there is a terminal to draw it on."""
    return (EventTable if sys.stdout.isatty() else EventLines)(scheduler, out, done_before)
