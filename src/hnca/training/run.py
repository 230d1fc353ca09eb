"""A whole run: from where it was left, or from the start, to the last epoch."""

import dataclasses
import json
import math
import platform
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ..data import Dataset
from ..errors import UserError
from ..experiments import AbstractExperiment
from ..files import write_json
from . import checkpoint
from .curves import draw_curves
from .directory import RunDirectory
from .engine import Engine
from .epoch import TrainState
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
    with directory.lock(), listening() as request:
        directory.begin(_config(experiment, data, command))
        entries = directory.read_metrics()
        state, done = _resume(directory, engine, len(entries))
        entries = entries[:done]  # what came after will be measured again
        directory.write_metrics(entries)
        wait = partial(_wait, tell=lambda: request.answer(reporter.say))
        try:
            if done < engine.epochs:
                _prepare(engine, state, done, reporter)
            for epoch in range(done + 1, engine.epochs + 1):
                request.check()
                state, entry = _epoch(engine, state, epoch, wait)
                directory.append(entry)
                checkpoint.save(directory.checkpoints, state, epoch)
                entries.append(entry)
                reporter.epoch(entry)
        except Interrupted as interrupted:
            interrupted.epochs = len(entries)
            draw_curves(entries, experiment, directory.curves)
            raise
        return _finish(engine, state, entries, directory)


def _prepare(engine: Engine, state: TrainState, done: int, reporter: Reporter) -> None:
    """Compiles, and tells the user why it takes a while."""
    if done:
        reporter.say(f"going on after epoch {done}")
    reporter.say("compiling, which takes some seconds the first time")
    engine.compile(state)
    reporter.begin(engine.epochs, done, engine.steps)


def _resume(directory: RunDirectory, engine: Engine, measured: int) -> tuple[TrainState, int]:
    """The state to go on from, and the epochs that it has behind it: those measured, at most."""
    start = engine.start()
    return checkpoint.restore(directory.checkpoints, start, measured) or (start, 0)


def _epoch(
    engine: Engine, state: TrainState, epoch: int, wait: Callable[[PyTree], None]
) -> tuple[TrainState, dict[str, Any]]:
    """One epoch, and its test where one is due."""
    began = time.perf_counter()
    state, metrics = engine.train(state, epoch)
    wait(metrics)
    entry = {"epoch": epoch, "step": int(state.step), "seconds": 0.0} | engine.summarise(metrics)
    if engine.test_is_due(epoch):
        tested = engine.test(state.graph, epoch)
        wait(tested)
        entry |= _floats(tested)
    entry["seconds"] = time.perf_counter() - began
    _check_finite(state, entry)
    return state, entry


def _wait(results: PyTree, tell: Callable[[], None]) -> None:
    """Until the device is done; unlike in JAX's own waiting, signals are heard meanwhile."""
    while not all(leaf.is_ready() for leaf in jax.tree.leaves(results)):
        tell()
        time.sleep(0.002)


def _floats(metrics: dict[str, Array]) -> dict[str, float]:
    return {name: float(value) for name, value in metrics.items()}


def _check_finite(state: TrainState, entry: dict[str, Any]) -> None:
    leaves = jax.tree.leaves(eqx.filter(state, eqx.is_inexact_array))
    finite = all(bool(jnp.isfinite(leaf).all()) for leaf in leaves)
    if not (finite and all(math.isfinite(value) for value in entry.values())):
        raise UserError(
            f"parameters or metrics are no longer finite after epoch {entry['epoch']}: try a "
            "smaller --learning-rate in another --out (the last good checkpoint is kept)"
        )


def _finish(
    engine: Engine, state: TrainState, entries: list[dict[str, Any]], directory: RunDirectory
) -> dict[str, Any]:
    """Draws the curves and writes the summary, unless that was done before."""
    before = directory.read_summary()
    if before.get("epochs") == len(entries):
        return before
    draw_curves(entries, engine.experiment, directory.curves)
    epochs, final = len(entries), entries[-1]
    if not engine.test_is_due(epochs):
        final = _floats(engine.test(state.graph, epochs)) | final
    summary = {
        "title": engine.experiment.title,
        "epochs": epochs,
        "seconds": sum(entry["seconds"] for entry in entries),
        "final": final,
    }
    write_json(directory.summary, summary)
    return summary


def _config(experiment: AbstractExperiment, data: Dataset, command: str | None) -> dict[str, Any]:
    """Everything needed to run it again."""
    record = {
        "task": experiment.name,
        "settings": dataclasses.asdict(experiment),
        "data": {"name": data.name, "fingerprint": data.fingerprint, "source": data.source},
        "command": command,
        "versions": {"python": platform.python_version()} | {p: version(p) for p in PACKAGES},
        "device": f"{jax.device_count()} x {jax.devices()[0].device_kind}, {jnp.zeros(()).dtype}",
    }
    return json.loads(json.dumps(record))  # as it will be read again: lists for tuples
