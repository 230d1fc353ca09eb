"""Where runs are done: the interface, and processes on this machine.

The processes are joblib's: each worker is an executor of loky, with one process. Loky starts it
like `spawn`, a new interpreter that inherits neither threads nor locks, and does not import the
main module again. An executor for each worker, instead of one for all, because a process that dies
takes its whole executor with it: so it costs its own run only, and one knows whose it was.
"""

import os
import signal
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import Any, ClassVar


class AbstractEngine(ABC):
    """Someone who calls functions elsewhere. A call whose worker died raises in its future."""

    name: ClassVar[str]

    @property
    @abstractmethod
    def workers(self) -> int:
        """Calls at a time; that of a cluster may change."""

    @abstractmethod
    def submit(self, function: Callable, *arguments: Any) -> Future:
        """Begins a call. No more than `workers` at a time."""

    @abstractmethod
    def close(self, at_once: bool = False) -> None:
        """Lets the workers go; `at_once`, what they are doing is abandoned."""


class LocalEngine(AbstractEngine):
    """Processes on this machine, each bound to a core of its own, so that they do not fight: XLA
    has as many threads as its process has cores."""

    name: ClassVar[str] = "local"

    def __init__(self, workers: int | None = None):
        self._lanes = [_Lane(core) for core in shared_out(available_cores(), workers)]

    @property
    def workers(self) -> int:
        return len(self._lanes)

    def submit(self, function: Callable, *arguments: Any) -> Future:
        free = next(lane for lane in self._lanes if lane.free)
        return free.submit(function, *arguments)

    def close(self, at_once: bool = False) -> None:
        for lane in self._lanes:
            lane.close(at_once)


class _Lane:
    """A process for one call after the other, and another one when it has died."""

    def __init__(self, core: int):
        self._core = core
        self._executor: Any = None
        self._latest: Future | None = None

    @property
    def free(self) -> bool:
        return self._latest is None or self._latest.done()

    def submit(self, function: Callable, *arguments: Any) -> Future:
        if self._latest is None or self._latest.exception():
            self.close(at_once=True)
            self._executor = self._start()
        with shielded():
            self._latest = future = self._executor.submit(function, *arguments)
        return future

    def _start(self) -> Any:
        from joblib.externals.loky import ProcessPoolExecutor

        # Loky replaces a process that has grown by 300 MB, as one does by many programs.
        warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
        return ProcessPoolExecutor(1, initializer=bind, initargs=(self._core,))

    def close(self, at_once: bool) -> None:
        if self._executor is not None:
            self._executor.shutdown(kill_workers=at_once)


def available_cores() -> list[int]:
    """Those that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def shared_out(cores: list[int], workers: int | None = None) -> list[int]:
    """The core of each worker. The paper's networks are small: a core is meant to serve another run
    rather than the same one. So there are as many workers as cores by default; of more than that,
    some share a core."""
    if workers is None:
        workers = len(cores)
    return [cores[number % len(cores)] for number in range(workers)]


def bind(core: int) -> None:
    """Keeps this process on a core, where the system can do that."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, [core])


@contextmanager
def shielded() -> Iterator[None]:
    """Processes that are started inside never hear the terminal's Ctrl-C. It is for the sweep,
    which then tells its workers to finish their epochs."""
    resource_tracker.ensure_running()  # which unblocks the signal if it has to start
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
