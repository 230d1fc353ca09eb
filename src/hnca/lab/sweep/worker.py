"""What is done elsewhere: a run, or a few measured steps. Every engine calls these two.

A worker gets the name of an experiment's class and its settings, and makes the experiment itself: a
class of the user's own file cannot be sent, as nobody else has imported that file yet."""

import os
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax

from ..cores import THREADS
from ..errors import UserError, first_line
from ..experiments import AbstractExperiment, count_rows, experiment_class, task_of
from ..training import (
    Interrupted,
    RunDirectory,
    Trainer,
    keep_compiled,
    make_reporters,
    train,
)
from ..training.directory import Busy

MEASURED_STEPS, MEASURED_TESTS = 20, 100


class Order(NamedTuple):
    """An experiment in plain words."""

    task: str
    settings: dict[str, Any]  # that are not the class's defaults

    @staticmethod
    def of(experiment: AbstractExperiment) -> "Order":
        """Of an experiment, to be sent."""
        usual, task = type(experiment)(), task_of(type(experiment))
        given = {field.name: getattr(experiment, field.name) for field in fields(experiment)}
        return Order(task, {k: v for k, v in given.items() if v != getattr(usual, k)})

    def experiment(self) -> AbstractExperiment:
        """The experiment, made here. A file that it names is imported, which runs it."""
        return experiment_class(self.task)(**self.settings)


class Job(NamedTuple):
    """A run, and what a worker has to know of it. On a cluster its paths must be on a file system
    that all machines share."""

    order: Order
    path: Path
    stop: Path  # once this file is there, a worker stops after its epoch
    data_dir: Path | None
    command: str
    reporters: tuple[str, ...] = ()  # their names


class Outcome(NamedTuple):
    """How a job ended."""

    ending: Literal["done", "failed", "busy", "stopped"]
    message: str = ""


class StopWatcher:
    """A display that has nobody to tell, but leaves when the sweep stops."""

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
        experiment = job.order.experiment()
        data = experiment.data(job.data_dir, _nobody)
        reporters = make_reporters(job.reporters)
        display, directory = StopWatcher(job.stop), RunDirectory(job.path)
        train(experiment, data, directory, display, job.command, reporters=reporters)
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


def measure(order: Order, data_dir: Path | None) -> Measurement:
    """A few steps and a test of a few examples, and what that means for a whole epoch."""
    _prepare()
    began = time.perf_counter()
    experiment = order.experiment()
    data = experiment.data(data_dir, _nobody)
    few = data.first(MEASURED_STEPS * experiment.batch_size, MEASURED_TESTS)
    trainer = Trainer(replace(experiment, warmup_steps=0), few)  # which may be more than few
    seeds, states = [experiment.seed], [trainer.start()]
    trainer.compile(states)
    [(state, _)] = jax.block_until_ready(trainer.train(states, seeds, 1))
    started = time.perf_counter()
    [(state, _)] = jax.block_until_ready(trainer.train([state], seeds, 2))
    trained = time.perf_counter()
    jax.block_until_ready(trainer.test([state.graph], seeds, 2))
    ended = time.perf_counter()
    step = (trained - started) / trainer.steps
    test = (ended - trained) / count_rows(few.test) * count_rows(data.test)
    steps = count_rows(data.train) // experiment.batch_size
    return Measurement(started - began, step * steps + test / experiment.eval_every)


def fetch_data(
    experiments: Iterable[AbstractExperiment], data_dir: Path | None, say: Callable[[str], None]
) -> None:
    """Each data set once, so that workers find it and need not fetch it at the same time."""
    for each in {(type(each), each.data_name): each for each in experiments}.values():
        each.fetch(data_dir, say)


def _nobody(line: str) -> None:
    """Tells a line to nobody: a worker has no one to tell."""


def _prepare() -> None:
    """One thread, said before JAX starts as many as there are cores; and programs that another
    worker has compiled are not compiled again."""
    os.environ.setdefault(THREADS, "1")
    keep_compiled()
