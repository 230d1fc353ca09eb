"""What is done elsewhere: a run, or a few measured steps. Every engine calls these two."""

import os
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import numpy as np

from ..data import load
from ..errors import UserError, first_line
from ..experiments import AbstractExperiment
from ..training import Engine, Interrupted, RunDirectory, keep_compiled, train
from ..training.directory import Busy

MEASURED_STEPS, MEASURED_IMAGES = 20, 100


class Job(NamedTuple):
    """A run, and what a worker has to know of it. On a cluster its paths must be on a file system
    that all machines share."""

    experiment: AbstractExperiment
    path: Path
    stop: Path  # once this file is there, a worker stops after its epoch
    data_dir: Path | None
    command: str


class Outcome(NamedTuple):
    """How a job ended."""

    ending: Literal["done", "failed", "busy", "stopped"]
    message: str = ""


class StopWatcher:
    """A reporter that has nobody to tell, but leaves when the sweep stops."""

    def __init__(self, stop: Path):
        self._stop = stop

    def say(self, message: str) -> None:
        pass

    def begin(self, epochs: int, done: int, steps: int) -> None:
        self._check()

    def epoch(self, entry: dict[str, Any]) -> None:
        self._check()

    def _check(self) -> None:
        if self._stop.exists():
            raise Interrupted(signal.SIGINT)


def work(job: Job) -> Outcome:
    """Trains a run to its end, from wherever it is. Tells of an error rather than raising it: what
    is raised here, to the engine, is the death of a worker."""
    _prepare()
    try:
        data = load(job.experiment.dataset, job.data_dir)
        train(job.experiment, data, RunDirectory(job.path), StopWatcher(job.stop), job.command)
    except Busy as busy:
        return Outcome("busy", str(busy))
    except Interrupted:
        return Outcome("stopped")
    except UserError as error:
        return Outcome("failed", str(error))
    except Exception as error:
        return Outcome("failed", f"{type(error).__name__}: {first_line(error)}")
    return Outcome("done")


class Measurement(NamedTuple):
    """What a run costs here, in seconds."""

    start: float  # compilation, mostly
    epoch: float


def measure(experiment: AbstractExperiment, data_dir: Path | None) -> Measurement:
    """A few steps and a test of a few images, and what that means for a whole epoch."""
    _prepare()
    began = time.perf_counter()
    data = load(experiment.dataset, data_dir)
    images = experiment.train_size or len(data.train_images)
    tested = experiment.test_size or len(data.test_images)
    few = {
        "train_size": _few(images, data.train_images, MEASURED_STEPS * experiment.batch_size),
        "test_size": _few(tested, data.test_images, MEASURED_IMAGES),
    }
    engine = Engine(replace(experiment, **few), data)
    seeds, states = [experiment.seed], [engine.start()]
    engine.compile(states)
    [(state, _)] = jax.block_until_ready(engine.train(states, seeds, 1))
    started = time.perf_counter()
    [(state, _)] = jax.block_until_ready(engine.train([state], seeds, 2))
    trained = time.perf_counter()
    jax.block_until_ready(engine.test([state.graph], seeds, 2))
    ended = time.perf_counter()
    step, test = (trained - started) / engine.steps, (ended - trained) / few["test_size"]
    steps = images // experiment.batch_size
    return Measurement(started - began, step * steps + test * tested / experiment.eval_every)


def _few(wanted: int, images: np.ndarray, enough: int) -> int:
    """Of more than there are, all: so that they are refused, as in training."""
    return wanted if wanted > len(images) else min(wanted, enough)


def _prepare() -> None:
    """One core for a process that nobody has bound to some, before JAX starts its threads; and
    programs that another worker has compiled are not compiled again."""
    os.environ.setdefault("PJRT_NPROC", "1")
    keep_compiled()
