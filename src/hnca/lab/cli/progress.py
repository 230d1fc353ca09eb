"""How a run shows itself: a bar on a terminal, plain lines elsewhere."""

import sys
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from ..experiments import AbstractExperiment
from ..training import hosts


def clock(seconds: float) -> str:
    """Hours, minutes and seconds."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


class EpochLines:
    """A line for each epoch: for logs."""

    def __init__(self, experiment: AbstractExperiment):
        self._measure = experiment.measure
        self._epochs = self._steps = 0
        self._seconds: list[float] = []

    def __enter__(self) -> "EpochLines":
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def say(self, message: str) -> None:
        print(message, flush=True)

    def begin(self, epochs: int, done: int, steps: int) -> None:
        self._epochs, self._steps, self._seconds = epochs, steps, []

    def epoch(self, entry: dict[str, Any]) -> None:
        self.say(f"epoch {entry['epoch']}/{self._epochs}  {self._measure} {self._facts(entry)}")

    def _facts(self, entry: dict[str, Any]) -> str:
        """The measure on both splits, the variance, the speed, and the time left at the mean pace
        of the epochs so far."""
        self._seconds.append(entry["seconds"])
        left = (self._epochs - entry["epoch"]) * sum(self._seconds) / len(self._seconds)
        names = ((split, f"{split}_{self._measure}") for split in ("train", "test"))
        facts = [f"{split} {entry[name]:.4g}" for split, name in names if name in entry]
        facts.append(f"variance {entry['gradient_variance']:.1e}")
        facts.append(f"{self._steps / entry['seconds']:.0f} steps/s")
        facts.append(f"left {clock(left)}")
        if entry["epoch"] == self._epochs and not any(name.startswith("test_") for name in entry):
            facts.append("(the last test is running)")
        return "  ".join(facts)


class Silence(EpochLines):
    """Nothing: for all processes but the first."""

    def say(self, message: str) -> None:
        pass


class Bar(EpochLines):
    """A bar above the latest figures."""

    def __init__(self, experiment: AbstractExperiment):
        super().__init__(experiment)
        self._progress = Progress(
            TextColumn("epoch {task.completed:.0f}/{task.total:.0f}"),
            BarColumn(bar_width=None),
            TimeElapsedColumn(),
            console=Console(),
            expand=True,
        )
        self._latest = Text("", no_wrap=True, overflow="ellipsis")
        self._live = Live(Group(self._progress, self._latest), console=self._progress.console)

    def __enter__(self) -> "Bar":
        self._live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._live.stop()

    def say(self, message: str) -> None:
        self._live.console.print(message, highlight=False, markup=False, soft_wrap=True)

    def begin(self, epochs: int, done: int, steps: int) -> None:
        super().begin(epochs, done, steps)
        self._latest.plain = "the first epoch is under way"
        for task in self._progress.task_ids:  # of runs that have caught up
            self._progress.remove_task(task)
        self._task = self._progress.add_task("", total=epochs, completed=done)

    def epoch(self, entry: dict[str, Any]) -> None:
        self._progress.update(self._task, completed=entry["epoch"])
        self._latest.plain = f"{self._measure} {self._facts(entry)}"


def display(experiment: AbstractExperiment) -> EpochLines:
    """A bar where there is a terminal to draw it on; one process speaks for all."""
    if not hosts.is_first():
        return Silence(experiment)
    return (Bar if sys.stdout.isatty() else EpochLines)(experiment)
