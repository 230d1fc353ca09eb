"""Who is told how training goes: a display, which tells the user, and reporters, which get what is
measured in every run."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Protocol, runtime_checkable

from ..errors import UsageError, UserError
from ..experiments import Data
from ..imported import class_named, is_named_class, words_of
from . import hosts
from .run import Run
from .tensorboard import TensorBoard

EpochMetrics = dict[str, Any]  # what is written of an epoch, by name


@runtime_checkable
class Display(Protocol):
    """Someone who tells the user how it goes."""

    def say(self, message: str) -> None:
        """A line."""

    def begin(self, epochs: int, done: int, steps: int) -> None:
        """Training starts, after so many epochs that were done before. Again, when runs that were
        behind have caught up, and the others join them."""

    def epoch(self, entry: EpochMetrics) -> None:
        """An epoch is over. Of runs side by side, the means, and the time of all of them."""


class Silent:
    """A display that shows nothing."""

    def say(self, message: str) -> None:
        """Nothing."""

    def begin(self, epochs: int, done: int, steps: int) -> None:
        """Nothing."""

    def epoch(self, entry: EpochMetrics) -> None:
        """Nothing."""


@runtime_checkable
class Reporter(Protocol):
    """Someone who gets what is measured, run by run, and takes it wherever people look.

    >>> class Best:
    ...     def begin(self, run, data):
    ...         self.best = max((each["test_accuracy"] for each in run.entries), default=0)
    ...     def epoch(self, run, entry):
    ...         self.best = max(self.best, entry["test_accuracy"])
    ...     def end(self, run, summary):
    ...         print(f"{run.experiment.title}: {self.best:.0%}")

    What it is told of is on the disk already. An error that it raises ends the training; the same
    command goes on from there. Where several processes train one run, it is in the first one."""

    def begin(self, run: Run, data: Data) -> None:
        """A run starts on these data, or goes on after the epochs that `run.entries` has. What it
        was told of later epochs does not count any more: they are done again."""

    def epoch(self, run: Run, entry: EpochMetrics) -> None:
        """An epoch is over: what was measured, by name, as in `metrics.jsonl`."""

    def end(self, run: Run, summary: dict[str, Any] | None) -> None:
        """The run is done, and this is what its `summary.json` says; or None, if it stops before
        that."""


class Reports:
    """All reporters at once. What the first process' reporters fail with stops all processes."""

    def __init__(self, reporters: Sequence[Reporter]):
        self._reporters = reporters
        self._open: list[tuple[Reporter, Run]] = []  # that are still to be told of an end

    def begin(self, run: Run, data: Data) -> None:
        """To all of them."""
        hosts.from_first(lambda: self._begin(run, data))

    def epoch(self, run: Run, entry: EpochMetrics) -> None:
        """To all of them."""
        hosts.from_first(lambda: self._epoch(run, entry))

    def end(self, run: Run, summary: dict[str, Any]) -> None:
        """To all of them."""
        hosts.from_first(lambda: self._end(run, summary))

    def _begin(self, run: Run, data: Data) -> None:
        for each in self._reporters:
            each.begin(run, data)
            self._open.append((each, run))

    def _epoch(self, run: Run, entry: EpochMetrics) -> None:
        for each in self._reporters:
            each.epoch(run, dict(entry))  # a copy: it is theirs

    def _end(self, run: Run, summary: dict[str, Any]) -> None:
        for pair in [pair for pair in self._open if pair[1] is run]:
            self._open.remove(pair)  # before: one that fails is not told again
            pair[0].end(run, summary)

    def abandon(self) -> None:
        """Tells those that are left that nothing more will come. Waits for no other process, and
        keeps what they fail with to itself: there may be a reason already why training stops."""
        for each, run in self._open:
            with suppress(Exception):
                each.end(run, None)


@contextmanager
def reporting(reporters: Sequence[Reporter], runs: Sequence[Run], data: Data) -> Iterator[Reports]:
    """Tells the reporters that the runs begin and, whatever happens inside, that they end."""
    reports = Reports(reporters)
    try:
        for run in runs:
            reports.begin(run, data)
        yield reports
    finally:
        reports.abandon()


def make_reporters(names: Sequence[str]) -> list[Reporter]:
    """Reporters by name: built-in ones, and classes as FILE.py:CLASS, which take no arguments."""
    return [_made(BUILT_IN.get(name) or _own(name), name) for name in names]


def _own(name: str) -> type:
    if not is_named_class(name):
        raise UsageError(f"--reporter '{name}': it has to be FILE.py:CLASS")
    methods = ("begin", "epoch", "end")
    fits = lambda each: each is not Reporter and all(hasattr(each, name) for name in methods)
    try:
        return class_named(name, "reporter", fits)
    except UserError as error:
        raise UserError(f"--reporter: {error} (it needs {', '.join(methods)})") from None


def _made(kind: type, name: str) -> Reporter:
    try:
        return kind()
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"--reporter {name} cannot be made: {words_of(error)}") from None


BUILT_IN: dict[str, type] = {"tensorboard": TensorBoard}
