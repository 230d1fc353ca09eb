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

from ..data import Dataset, load
from ..errors import UserError, first_line
from ..experiments import AbstractExperiment, experiment_class, task_of
from ..training import Engine, Interrupted, RunDirectory, keep_compiled, train
from ..training.directory import Busy

MEASURED_STEPS, MEASURED_IMAGES = 20, 100


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
        experiment = job.order.experiment()
        data = load_data(experiment, job.data_dir)
        train(experiment, data, RunDirectory(job.path), StopWatcher(job.stop), job.command)
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
    """A few steps and a test of a few images, and what that means for a whole epoch."""
    _prepare()
    began = time.perf_counter()
    experiment = order.experiment()
    data = load_data(experiment, data_dir)
    examples, tested = _sizes(experiment, data)
    engine = Engine(_shortened(experiment, data), data)
    seeds, states = [experiment.seed], [engine.start()]
    engine.compile(states)
    [(state, _)] = jax.block_until_ready(engine.train(states, seeds, 1))
    started = time.perf_counter()
    [(state, _)] = jax.block_until_ready(engine.train([state], seeds, 2))
    trained = time.perf_counter()
    jax.block_until_ready(engine.test([state.graph], seeds, 2))
    ended = time.perf_counter()
    step = (trained - started) / engine.steps
    test = (ended - trained) / min(tested, MEASURED_IMAGES)
    steps = examples // experiment.batch_size
    return Measurement(started - began, step * steps + test * tested / experiment.eval_every)


def load_data(
    experiment: AbstractExperiment,
    data_dir: Path | None,
    say: Callable[[str], None] = lambda line: None,
) -> Dataset:
    """What an experiment trains and is tested on."""
    return load(experiment.dataset, data_dir, say=say)


def fetch_data(
    experiments: Iterable[AbstractExperiment], data_dir: Path | None, say: Callable[[str], None]
) -> None:
    """Each data set once, so that workers find it and need not fetch it at the same time."""
    for each in {each.dataset: each for each in experiments}.values():
        load_data(each, data_dir, say)


def _sizes(experiment: AbstractExperiment, data: Dataset) -> tuple[int, int]:
    """How many examples are trained and tested on."""
    train, test = experiment.train_size, experiment.test_size
    return train or len(data.train_images), test or len(data.test_images)


def _shortened(experiment: AbstractExperiment, data: Dataset) -> AbstractExperiment:
    """The same with few examples. Of more than there are, all: so that they are refused, as in
    training."""
    few, sizes = {}, _sizes(experiment, data)
    there = len(data.train_images), len(data.test_images)
    enough = MEASURED_STEPS * experiment.batch_size, MEASURED_IMAGES
    for name, *counts in zip(("train_size", "test_size"), sizes, there, enough, strict=True):
        wanted, all_of_it, few_of_it = counts
        few[name] = wanted if wanted > all_of_it else min(wanted, few_of_it)
    return replace(experiment, **few)


def _prepare() -> None:
    """One core for a process that nobody has bound to some, before JAX starts its threads; and
    programs that another worker has compiled are not compiled again."""
    os.environ.setdefault("PJRT_NPROC", "1")
    keep_compiled()
