"""How a run shows itself: a bar on a terminal, plain lines elsewhere."""

import sys
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from ..experiments import AbstractExperiment


def clock(seconds: float) -> str:
    """Hours, minutes and seconds."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


class Lines:
    """A line for each epoch: for logs."""

    def __init__(self, experiment: AbstractExperiment):
        self._measure = experiment.measure
        self._epochs = self._steps = 0

    def __enter__(self) -> "Lines":
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def say(self, message: str) -> None:
        print(message, flush=True)

    def begin(self, epochs: int, done: int, steps: int) -> None:
        self._epochs, self._steps = epochs, steps

    def epoch(self, entry: dict[str, Any]) -> None:
        left = clock((self._epochs - entry["epoch"]) * entry["seconds"])
        self.say(f"epoch {entry['epoch']}/{self._epochs}  {self._facts(entry)}  left {left}")

    def _facts(self, entry: dict[str, Any]) -> str:
        names = (f"{split}_{self._measure}" for split in ("train", "test"))
        facts = [f"{name} {entry[name]:.4g}" for name in names if name in entry]
        facts.append(f"variance {entry['gradient_variance']:.2e}")
        facts.append(f"{self._steps / entry['seconds']:.0f} steps/s")
        return "  ".join(facts)


class Bar(Lines):
    """A bar with the latest figures."""

    def __init__(self, experiment: AbstractExperiment):
        super().__init__(experiment)
        self._progress = Progress(
            TextColumn("epoch {task.completed:.0f}/{task.total:.0f}"),
            BarColumn(),
            TextColumn("{task.fields[facts]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=Console(),
        )

    def __enter__(self) -> "Bar":
        self._progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._progress.stop()

    def say(self, message: str) -> None:
        self._progress.console.print(message, highlight=False, markup=False)

    def begin(self, epochs: int, done: int, steps: int) -> None:
        super().begin(epochs, done, steps)
        self._task = self._progress.add_task("", total=epochs, completed=done, facts="")

    def epoch(self, entry: dict[str, Any]) -> None:
        self._progress.update(self._task, completed=entry["epoch"], facts=self._facts(entry))


def reporter(experiment: AbstractExperiment) -> Lines:
    """A bar where there is a terminal to draw it on."""
    return (Bar if sys.stdout.isatty() else Lines)(experiment)
