"""A whole run: from where it was left, or from the start, to the last epoch."""

import dataclasses
import json
import math
import platform
import time
from importlib.metadata import version
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from ..data import Dataset
from ..errors import UserError
from ..experiments import AbstractExperiment
from . import checkpoint
from .curves import draw_curves
from .directory import RunDirectory
from .engine import Engine
from .epoch import TrainState
from .files import write_json
from .signals import Interrupted, listening

PACKAGES = ("hnca", "jax", "jaxlib", "equinox", "optax", "numpy")


@runtime_checkable
class Reporter(Protocol):
    """Someone who tells the user how it goes."""

    def say(self, message: str) -> None:
        """A line."""

    def begin(self, epochs: int, done: int, steps: int) -> None:
        """Training starts, after so many epochs that were done before."""

    def epoch(self, entry: dict[str, Any]) -> None:
        """An epoch is over."""


def train(
    experiment: AbstractExperiment,
    data: Dataset,
    directory: RunDirectory,
    reporter: Reporter,
    command: str | None = None,
) -> dict[str, Any]:
    """Runs the experiment in a directory, from its last checkpoint if there is one, and returns
    the summary. Whenever it is interrupted, the same call goes on, and ends in the same bits."""
    experiment.check()
    engine = Engine(experiment, data)
    with directory.lock(), listening(reporter.say) as request:
        directory.begin(_config(experiment, data, command))
        state, done = _resume(directory, engine)
        entries = directory.forget_after(done)
        if done < engine.epochs:
            if done:
                reporter.say(f"going on after epoch {done} in {directory.path}")
            engine.compile(state)
            reporter.begin(engine.epochs, done, engine.steps)
        try:
            for epoch in range(done + 1, engine.epochs + 1):
                request.check()
                state, entry = _epoch(engine, state, epoch)
                directory.append(entry)
                checkpoint.save(directory.checkpoints, state, epoch)
                entries.append(entry)
                reporter.epoch(entry)
        except Interrupted:
            draw_curves(entries, experiment, directory.curves)
            raise
        return _finish(experiment, entries, directory)


def _resume(directory: RunDirectory, engine: Engine) -> tuple[TrainState, int]:
    """The state to go on from, and the epochs that it has behind it."""
    start = engine.start()
    return checkpoint.restore(directory.checkpoints, start) or (start, 0)


def _epoch(engine: Engine, state: TrainState, epoch: int) -> tuple[TrainState, dict[str, Any]]:
    """One epoch and its test."""
    began = time.perf_counter()
    state, metrics = engine.train(state, epoch)
    tested = engine.test(state.graph, epoch)
    _wait((metrics, tested))
    entry = {"epoch": epoch, "step": int(state.step), "seconds": time.perf_counter() - began}
    entry |= engine.summarise(metrics) | {name: float(value) for name, value in tested.items()}
    _check_finite(state, entry)
    return state, entry


def _wait(results: PyTree) -> None:
    """Until the device is done; unlike JAX's own waiting, signals are heard meanwhile."""
    while not all(leaf.is_ready() for leaf in jax.tree.leaves(results)):
        time.sleep(0.002)


def _check_finite(state: TrainState, entry: dict[str, Any]) -> None:
    leaves = [leaf for leaf in jax.tree.leaves(state) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    finite = all(bool(jnp.isfinite(leaf).all()) for leaf in leaves)
    if not (finite and all(math.isfinite(value) for value in entry.values())):
        raise UserError(
            f"parameters or metrics are no longer finite after epoch {entry['epoch']}: try a "
            "smaller --learning-rate in another --out (the last good checkpoint is kept)"
        )


def _finish(
    experiment: AbstractExperiment, entries: list[dict[str, Any]], directory: RunDirectory
) -> dict[str, Any]:
    """Writes the summary and draws the curves."""
    summary = {
        "title": experiment.title,
        "epochs": len(entries),
        "seconds": sum(entry["seconds"] for entry in entries),
        "final": entries[-1],
    }
    write_json(directory.summary, summary)
    draw_curves(entries, experiment, directory.curves)
    return summary


def _config(experiment: AbstractExperiment, data: Dataset, command: str | None) -> dict[str, Any]:
    """Everything needed to run it again."""
    record = {
        "task": experiment.name,
        "settings": dataclasses.asdict(experiment),
        "data": {"name": data.name, "fingerprint": data.fingerprint, "source": data.source},
        "command": command,
        "versions": {"python": platform.python_version()} | {p: version(p) for p in PACKAGES},
        "device": f"{jax.device_count()} x {jax.devices()[0].device_kind}",
    }
    return json.loads(json.dumps(record))  # as it will be read again: lists for tuples
