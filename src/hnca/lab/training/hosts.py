"""Several processes that train one run together, on one machine or on many.

All take the same way through the same code. The first one alone has the run's directory, and what
it reads there, or fails with, it tells the others: they need no file system in common. One that
fails or is asked to stop stops them all; one that is killed leaves the others waiting, until JAX
ends them.
"""

import json
from collections.abc import Callable
from typing import Any, TypeVar, cast

import equinox as eqx
import jax
import numpy as np
from jax.experimental import multihost_utils
from jaxtyping import PyTree

from ..errors import UserError, first_line
from .checkpoint import from_numpy, to_numpy

Made = TypeVar("Made")

PATIENCE = 30  # seconds until a process that left is missed


def join(coordinator: str | None, processes: int | None, process: int | None) -> None:
    """Waits for the other processes, before JAX does anything else. What is None is looked for
    in the environment of a cluster."""
    try:
        jax.distributed.initialize(
            coordinator,
            processes,
            process,
            heartbeat_timeout_seconds=PATIENCE,
            shutdown_timeout_seconds=PATIENCE,
        )
    except (ValueError, RuntimeError) as error:
        raise UserError(
            f"the processes did not find each other ({_reason(error)}): each needs --coordinator, "
            "--processes and --process, or Slurm or MPI to tell them"
        ) from None


def is_first() -> bool:
    """Whether this process is the one that writes and reports."""
    return jax.process_index() == 0


def count() -> int:
    """How many processes there are."""
    return jax.process_count()


def from_first(make: Callable[[], Any]) -> Any:
    """What is made in the first process, in all of them; its failures, too. None or JSON."""
    if jax.process_count() == 1:
        return make()
    made, failure = _tried(make) if is_first() else (None, None)
    told = _told({"made": made, "failed": failure and _reason(failure)})
    if failure:
        raise failure
    if told["failed"]:
        raise UserError(f"process 0: {told['failed']}")
    return told["made"]


def together(make: Callable[[], Made]) -> Made:
    """What each process makes, such as data that it loads, once all of them have made it. What
    one of them fails with stops them all."""
    if jax.process_count() == 1:
        return make()
    made, failure = _tried(make)
    failed = maximum(int(failure is not None))
    if failure:
        raise failure
    if failed:
        raise UserError("another process failed: see what it says")
    return cast(Made, made)


def _tried(make: Callable[[], Made]) -> tuple[Made | None, Exception | None]:
    try:
        return make(), None
    except Exception as error:  # whatever it is: the others must not wait for this process
        return None, error


def _reason(error: Exception) -> str:
    return first_line(error) or type(error).__name__


def _told(record: dict[str, Any]) -> dict[str, Any]:
    """The first process' record: its length, then its letters."""
    content = np.frombuffer(json.dumps(record).encode(), np.uint8)
    length = int(multihost_utils.broadcast_one_to_all(np.int32(len(content))))
    padded = np.resize(content, length)
    return json.loads(multihost_utils.broadcast_one_to_all(padded).tobytes())


def state_of_first(state: PyTree) -> PyTree:
    """The first process' arrays, in all of them."""
    if jax.process_count() == 1:
        return state
    arrays, static = eqx.partition(state, eqx.is_array)
    told = multihost_utils.broadcast_one_to_all(jax.tree.map(to_numpy, arrays))
    return eqx.combine(jax.tree.map(from_numpy, told, arrays), static)


def maximum(number: int) -> int:
    """Of the numbers that the processes give."""
    if jax.process_count() == 1:
        return number
    return int(multihost_utils.process_allgather(np.int32(number)).max())


def agree(record: Any) -> None:
    """Refuses to go on where the processes were not given the same."""
    if maximum(int(from_first(lambda: record) != record)):
        raise UserError(
            "the processes have different settings, data or versions: give all of them "
            "the same command, but for --process"
        )
