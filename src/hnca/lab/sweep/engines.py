"""Where runs are done: the interface, and an engine for each place.

local    processes on this machine
ray      a Ray cluster, or Ray on this machine
dask     a Dask cluster, or Dask on this machine

To add one: a class here, and its name in `ENGINES` at the end. The command line knows it from then
on. On a cluster of several machines `--out` has to be on a file system that all of them share, and
hnca has to be installed on each, in the same version.
"""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from importlib import import_module
from multiprocessing import resource_tracker
from typing import Any, ClassVar

from ..cores import usable_cores
from ..errors import UserError, first_line

STORE = 100 << 20  # bytes, for what Ray passes on: next to nothing here
LOOK = 1.0  # seconds until a worker looks again whether its parent is there
RAY_TIMEOUT = 25.0  # seconds for a Ray cluster to answer
TRY_RAY = "import ray, sys; ray.init(address=sys.argv[1], log_to_driver=False)"


class AbstractEngine(ABC):
    """Someone who calls functions elsewhere. A call whose worker died raises in its future."""

    about: ClassVar[str]
    """Where that is, for the command line's help."""
    library: ClassVar[str | None] = None
    """A package that it needs, if any."""
    ends_calls: ClassVar[bool] = False
    """Whether no call goes on once it is closed."""

    @abstractmethod
    def __init__(self, workers: int | None = None, address: str | None = None):
        """`workers` calls at a time, by default one for each core; `address` is that of a cluster
        that is there already."""

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
    """Processes on this machine. The paper's networks are small: a core is meant to serve another
    run rather than the same one. So there are as many workers as cores by default, and each
    computes in one thread. None is bound to a core: another sweep would choose the same one.

    The processes are joblib's: each worker is an executor of loky, with one process. Loky starts it
    like `spawn`, a new interpreter that inherits neither threads nor locks, and does not import the
    main module again. An executor for each worker, instead of one for all, because a process that
    dies takes its whole executor with it: so it costs its own run only, and one knows whose it
    was."""

    about: ClassVar[str] = "processes on this machine"
    ends_calls: ClassVar[bool] = True

    def __init__(self, workers: int | None = None, address: str | None = None):
        if address is not None:
            raise UserError(f"the local engine has no address, such as {address}")
        self._lanes = [_Lane() for _ in range(workers or usable_cores())]

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

    def __init__(self):
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
        return ProcessPoolExecutor(1, initializer=_end_with, initargs=(os.getpid(),))

    def close(self, at_once: bool) -> None:
        if self._executor is not None:
            self._executor.shutdown(kill_workers=at_once)


class RayEngine(AbstractEngine):
    """A Ray cluster, or Ray on this machine.

    Not by joblib's backend for it: that hands out calls to its processes in turn, to a busy one
    while another is idle, which is bad for calls of hours. Ray's own futures do better in as many
    lines, and follow a cluster that grows; so do Dask's."""

    about: ClassVar[str] = "a Ray cluster, or Ray on this machine"
    library: ClassVar[str | None] = "ray"

    def __init__(self, workers: int | None = None, address: str | None = None):
        self._ray, self._limit, self._calls = import_module("ray"), workers, []
        options: dict[str, Any] = {"logging_level": "error", "log_to_driver": False}
        if address is not None:
            _try_ray(address)
        else:
            cores = workers or usable_cores()
            options |= {"num_cpus": cores, "include_dashboard": False, "object_store_memory": STORE}
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            with shielded():
                self._ray.init(address=address or "local", **options)  # whatever RAY_ADDRESS says
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise _unreachable("Ray", address, error) from None

    @property
    def workers(self) -> int:
        cores = int(self._ray.cluster_resources().get("CPU", 1))
        return min(cores, self._limit or cores)

    def submit(self, function: Callable, *arguments: Any) -> Future:
        remote = self._ray.remote(num_cpus=1, max_retries=0)(function)
        call = remote.remote(*arguments)
        self._calls.append(call)
        return call.future()

    def close(self, at_once: bool = False) -> None:
        for call in self._calls if at_once else ():
            self._ray.cancel(call, force=True)
        self._ray.shutdown()


class DaskEngine(AbstractEngine):
    """A Dask cluster, or Dask on this machine: a call at a time for each worker, however many
    threads it has. Dask itself repeats a call whose worker was lost."""

    about: ClassVar[str] = "a Dask cluster, or Dask on this machine"
    library: ClassVar[str | None] = "distributed"

    def __init__(self, workers: int | None = None, address: str | None = None):
        distributed: Any = import_module("distributed")
        self._limit, self._cluster = workers, None
        if address is None:
            with shielded():
                self._cluster = distributed.LocalCluster(
                    n_workers=workers or usable_cores(),
                    threads_per_worker=1,
                    dashboard_address="127.0.0.1:0",  # any port that is free
                    silence_logs=logging.ERROR,
                )
        try:
            self._client = distributed.Client(self._cluster or address, set_as_default=False)
        except (OSError, ValueError) as error:
            raise _unreachable("Dask", address, error) from None

    @property
    def workers(self) -> int:
        there = len(self._client.ncores()) or 1
        return min(there, self._limit or there)

    def submit(self, function: Callable, *arguments: Any) -> Future:
        call = self._client.submit(function, *arguments, pure=False)
        future: Future = Future()
        future.call = call  # pyright: ignore[reportAttributeAccessIssue]  # Dask forgets it else
        call.add_done_callback(lambda call: _pass_on(call, future))
        return future

    def close(self, at_once: bool = False) -> None:
        self._client.close()
        if self._cluster is not None:
            with suppress(TimeoutError):  # its processes end with this one in any case
                self._cluster.close(timeout=2 if at_once else 20)


def _pass_on(call: Any, future: Future) -> None:
    """The outcome of a Dask future, to one that the standard library can wait for."""
    if call.status == "finished":
        future.set_result(call.result())
    else:
        future.set_exception(call.exception() or RuntimeError("the call was cancelled"))


def _end_with(parent: int) -> None:
    """Ends this process with its parent: one that was killed cannot tell its workers. What they
    have saved stays."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(LOOK)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


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


def _try_ray(address: str) -> None:
    """Connects in another process first: where nobody answers, Ray goes on trying for minutes, with
    pages of messages, and cannot be stopped."""
    command = [sys.executable, "-c", TRY_RAY, address]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=RAY_TIMEOUT)
    except subprocess.TimeoutExpired:
        error = TimeoutError(f"no answer within {RAY_TIMEOUT:.0f} seconds")
        raise _unreachable("Ray", address, error) from None
    except subprocess.CalledProcessError as failure:
        *_, last = ["", *failure.stderr.strip().splitlines()]
        raise _unreachable("Ray", address, RuntimeError(last)) from None


def _unreachable(what: str, address: str | None, error: Exception) -> UserError:
    return UserError(f"no {what} cluster at {address or 'this machine'}: {first_line(error)}")


ENGINES: dict[str, type[AbstractEngine]] = {
    "local": LocalEngine,
    "ray": RayEngine,
    "dask": DaskEngine,
}


def make_engine(
    name: str, workers: int | None = None, address: str | None = None
) -> AbstractEngine:
    """The engine of this name; `address` is that of a cluster that is there already."""
    check_engine(name, workers, address)
    return ENGINES[name](workers, address)


def check_engine(name: str, workers: int | None = None, address: str | None = None) -> None:
    """Refuses what no engine can be made of, before anything is done."""
    if workers is not None and workers < 1:
        raise UserError(f"--workers must be 1 or more, not {workers}")
    if (library := ENGINES[name].library) is not None:
        try:
            import_module(library)
        except ModuleNotFoundError:
            raise UserError(f"--engine {name} needs it: pip install 'hnca[{name}]'") from None
    elif address is not None:
        clusters = [f"--engine {each}" for each, kind in ENGINES.items() if kind.library]
        raise UserError(f"--address is that of a cluster: add {' or '.join(clusters)}")
