"""A run that was trained before, read back, and its test once more: more closely than while it
trained."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from ...compare import Progress, compare
from ...comparison import Comparison
from ...graph import Graph
from ..errors import UserError
from ..experiments import AbstractExperiment, Data, count_rows, experiment_from
from . import checkpoint
from .directory import Ledger, RunDirectory
from .trainer import TEST_BATCH, Trainer, measured_rows


class TrainedRun(NamedTuple):
    """A run as it was last saved."""

    experiment: AbstractExperiment
    data: Data
    graph: Graph
    epoch: int  # after which it was saved


def read_trained(
    directory: RunDirectory,
    kind: type[AbstractExperiment] | None = None,
    data_dir: Path | None = None,
) -> TrainedRun:
    """The last state of a run, and the data that it was trained on. `kind` is the class of an
    experiment that is not built in.

        graph = read_trained(RunDirectory(Path("runs/gates")), Gates).graph
    """
    config = directory.read_config()
    try:
        experiment = experiment_from(config, kind)
    except UserError as error:
        raise UserError(f"{directory.path}: {error}") from None
    data = experiment.data(data_dir, lambda line: None)
    if data.fingerprint != config["data"].get("fingerprint"):
        raise UserError(f"{directory.path} was trained on another {data.name} than the one here")
    start = Trainer(experiment, data).start()
    belongings = Ledger(config).add_all(directory.read_metrics())
    saved = checkpoint.restore(directory.checkpoints, start, belongings)
    if saved is None:
        raise UserError(f"{directory.path} has no checkpoint yet: train it first")
    state, epoch = saved
    return TrainedRun(experiment, data, state.graph, epoch)


def untrained(experiment: AbstractExperiment, data: Data) -> TrainedRun:
    """The same before the first epoch."""
    return TrainedRun(experiment, data, Trainer(experiment, data).start().graph, 0)


def compare_on(
    run: TrainedRun, estimators: Sequence[str] | None, budget: float, progress: Progress
) -> Comparison:
    """Compares methods on a batch of the run's training data, at its parameters."""
    order, step, measure = jax.random.split(jax.random.key(run.experiment.seed), 3)
    chosen = jax.random.permutation(order, count_rows(run.data.train))[: run.experiment.batch_size]
    rows = jax.tree.map(lambda array: jnp.asarray(array)[chosen], run.data.train)
    context, world, _ = run.experiment.step(rows, step)
    return compare(
        run.graph,
        estimators,
        measure,
        reward=world,
        exact=world is None,  # a world knows the examples of the batch by their places
        budget=budget,
        progress=progress,
        **context,
    )


def evaluate(
    experiment: AbstractExperiment,
    graph: Graph,
    rows: PyTree,
    seed: int,
    track: Callable[[list[int]], Iterable[int]] = lambda starts: starts,
) -> dict[str, Any]:
    """The mean of each metric of the experiment's test, and its standard error over the rows.
    Every row has a key of its own, made of the seed. `track` may show the progress."""
    count = count_rows(rows)
    keys = jax.random.split(jax.random.key(seed), count)
    program, found = eqx.filter_jit(measured_rows), []
    for start in track(list(range(0, count, TEST_BATCH))):
        chosen = slice(start, start + TEST_BATCH)
        part = jax.tree.map(lambda array, chosen=chosen: array[chosen], rows)
        found.append(jax.device_get(program(experiment, graph, part, keys[chosen])))
    result: dict[str, Any] = {"seed": seed, "examples": count}
    for name in found[0]:
        values = np.concatenate([each[name] for each in found]).astype(np.float64)
        error = standard_error(values)
        result |= {name: float(values.mean()), f"{name}_standard_error": float(error)}
    return result


def standard_error(values: np.ndarray) -> float:
    """Of the mean of independent values; 0 where one value does not tell."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0
