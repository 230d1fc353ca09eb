"""Where runs are done: Ray and Dask.

Not by joblib's backends for them: the one for Ray hands out calls to its processes in turn, to a
busy one while another is idle, which is bad for calls of hours. Ray's and Dask's own futures do
better in as many lines, and follow a cluster that grows.

On a cluster of several machines `--out` has to be on a file system that all of them share, and hnca
has to be installed on each, in the same version.
"""

import logging
import os
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from importlib import import_module
from typing import Any, ClassVar

from ..errors import UserError, first_line
from .engines import AbstractEngine, LocalEngine, available_cores, shielded

STORE = 100 << 20  # bytes, for what Ray passes on: next to nothing here


def make_engine(
    name: str, workers: int | None = None, address: str | None = None
) -> AbstractEngine:
    """The engine of this name; `address` is that of a cluster that is there already."""
    check_engine(name, workers, address)
    if name == "local":
        return LocalEngine(workers)
    return {"ray": RayEngine, "dask": DaskEngine}[name](workers, address)


def check_engine(name: str, workers: int | None = None, address: str | None = None) -> None:
    """Refuses what no engine can be made of, before anything is done."""
    if workers is not None and workers < 1:
        raise UserError(f"--workers must be 1 or more, not {workers}")
    if name != "local":
        _library(name)
    elif address is not None:
        raise UserError("--address is that of a cluster: add --engine ray or --engine dask")


class RayEngine(AbstractEngine):
    """A Ray cluster, or Ray on this machine."""

    name: ClassVar[str] = "ray"

    def __init__(self, workers: int | None = None, address: str | None = None):
        self._ray, self._limit, self._calls = _library("ray"), workers, []
        options: dict[str, Any] = {"logging_level": "error", "log_to_driver": False}
        if address is None:
            cores = workers or len(available_cores())
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

    name: ClassVar[str] = "dask"

    def __init__(self, workers: int | None = None, address: str | None = None):
        distributed = _library("dask")
        self._limit, self._cluster = workers, None
        if address is None:
            with shielded():
                self._cluster = distributed.LocalCluster(
                    n_workers=workers or len(available_cores()),
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


def _library(engine: str) -> Any:
    try:
        return import_module({"ray": "ray", "dask": "distributed"}[engine])
    except ModuleNotFoundError:
        raise UserError(f"--engine {engine} needs it: pip install 'hnca[{engine}]'") from None


def _unreachable(what: str, address: str | None, error: Exception) -> UserError:
    return UserError(f"no {what} cluster at {address or 'this machine'}: {first_line(error)}")
