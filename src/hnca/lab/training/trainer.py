"""An experiment on its data: the program of an epoch, and the program of a test."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PRNGKeyArray, PyTree

from ...credit import parameter_counts
from ...graph import Graph
from ..errors import UserError
from ..experiments import AbstractExperiment, Data, Step, count_rows
from .devices import Devices
from .programs import Metrics, Program, TrainState, epoch_function

ACTIVE = 0.01  # the least variance of an active unit's value
TEST_BATCH = 500  # rows of a test at a time: bounds its memory
CACHED_BATCH = 50  # the same on a CPU, whose caches have no room for more


class Keys(NamedTuple):
    """All that is random in a run comes of its seed, and in epoch n of its seed and n."""

    graph: PRNGKeyArray
    state: PRNGKeyArray
    epoch: PRNGKeyArray
    test: PRNGKeyArray

    @staticmethod
    def of(seed: int) -> "Keys":
        """Those of a seed."""
        return Keys(*jax.random.split(jax.random.key(seed), 4))


class Trainer:
    """Trains and tests an experiment, for one seed or for several side by side: the states,
    networks and seeds of the runs come in lists, and so do the results."""

    def __init__(self, experiment: AbstractExperiment, data: Data, devices: Devices | None = None):
        self.experiment, self.devices = experiment, devices or Devices()
        self.steps = self._count_steps(count_rows(data.train))
        on_device = jax.tree.map(jnp.asarray, (data.train, data.test))
        self.train_set, self.test_set = self.devices.everywhere(on_device)
        self.epochs = experiment.epochs
        if experiment.updates is not None:
            self.epochs = math.ceil(experiment.updates / self.steps)
        self._make_graph = lambda seed: experiment.graph(data, Keys.of(seed).graph)
        self.graph = self._make_graph(experiment.seed)
        counts = parameter_counts(self.graph)
        self._counts = {name: counts[name] for name in experiment.measured_layers(self.graph)}
        self._estimator = experiment.make_estimator()
        self._optimizer = experiment.make_optimizer(self.steps * self.epochs)
        self._epoch_function = epoch_function(
            self._estimator, self._optimizer, self._step, measured=self._counts
        )
        self._epoch = Program(self._train_one, self.devices, donate=True)
        self._test = Program(self._test_one, self.devices)

    def _count_steps(self, rows: int) -> int:
        batch, devices = self.experiment.batch_size, len(self.devices)
        if batch > rows:
            raise UserError(f"--batch-size {batch} is more than {rows} examples to train on")
        if batch % devices:
            raise UserError(f"--batch-size {batch} must be a multiple of the {devices} devices")
        return rows // batch

    def start(self, seed: int | None = None) -> TrainState:
        """The state before the first step, by default of the experiment's own seed."""
        seed = self.experiment.seed if seed is None else seed
        return TrainState.start(
            self._make_graph(seed), self._estimator, self._optimizer, Keys.of(seed).state
        )

    def compile(
        self, states: Sequence[TrainState], look: Callable[[], None] = lambda: None
    ) -> None:
        """Gets both programs ready, for so many runs. `look` is called every now and then."""
        keys = [Keys.of(self.experiment.seed).epoch] * len(states)  # any will do
        self._epoch.compile(self.train_set, keys, states, look)
        self._test.compile(self.test_set, keys, [state.graph for state in states], look)

    def train(
        self, states: Sequence[TrainState], seeds: Sequence[int], epoch: int
    ) -> list[tuple[TrainState, Metrics]]:
        """One epoch. It may still be under way on the device when this returns. The states are
        used up."""
        keys = [jax.random.fold_in(Keys.of(seed).epoch, epoch) for seed in seeds]
        return self._epoch(self.train_set, keys, states)

    def test_is_due(self, epoch: int) -> bool:
        """Whether the metrics of this epoch have a test."""
        return epoch % self.experiment.eval_every == 0

    def test(self, graphs: Sequence[Graph], seeds: Sequence[int], epoch: int) -> list[Metrics]:
        """Mean metrics over the test data."""
        keys = [jax.random.fold_in(Keys.of(seed).test, epoch) for seed in seeds]
        return self._test(self.test_set, keys, graphs)

    def summarise(self, metrics: Metrics) -> dict[str, float]:
        """Means over the steps of an epoch, and over the parameters of the layers. A unit is active
        whose value varies over the examples: on average it fires with a probability p such that
        p (1 - p) > 0.01."""
        means = {name: np.mean(values, axis=0) for name, values in metrics.items()}
        variances = {name: float(means[f"variance/{name}"]) for name in self._counts}
        firing = {
            name.removeprefix("firing/"): each
            for name, each in means.items()
            if name.startswith("firing/")
        }
        active = {name: int(np.sum(p * (1 - p) > ACTIVE)) for name, p in firing.items()}
        total = sum(count * variances[name] for name, count in self._counts.items())
        return {
            f"train_{self.experiment.measure}": float(means["value"]),
            "gradient_variance": total / sum(self._counts.values()),
            **{f"gradient_variance/{name}": value for name, value in variances.items()},
            **{f"active_units/{name}": count for name, count in active.items()},
        }

    def _train_one(
        self, rows: PyTree, key: PRNGKeyArray, state: TrainState
    ) -> tuple[TrainState, Metrics]:
        return self._epoch_function(self._deal(rows, key), state)

    def _deal(self, rows: PyTree, key: PRNGKeyArray) -> tuple[PyTree, Key[Array, " steps"]]:
        """The batches of an epoch: every row once (less a remainder), in a fresh order, and a key
        for each. Each device gets an equal part of every batch."""
        order_key, step_key = jax.random.split(key)
        order = jax.random.permutation(order_key, count_rows(rows))
        chosen = order[: self.steps * self.experiment.batch_size].reshape(self.steps, -1)
        batches = self.devices.spread(jax.tree.map(lambda array: array[chosen], rows), axis=1)
        return batches, jax.random.split(step_key, self.steps)

    def _step(self, entry: tuple[PyTree, PRNGKeyArray]) -> Step:
        return self.experiment.step(*entry)

    def _test_one(self, rows: PyTree, key: PRNGKeyArray, graph: Graph) -> Metrics:
        measure = lambda part: measured_rows(self.experiment, graph, *part)
        keys = jax.random.split(key, count_rows(rows))
        by_row = self.devices.in_parts(measure, (rows, keys))
        return {name: jnp.mean(values) for name, values in by_row.items()}


def measured_rows(
    experiment: AbstractExperiment, graph: Graph, rows: PyTree, keys: Key[Array, " N"]
) -> dict[str, Float[Array, " N"]]:
    """The experiment's test of each row, with a key of its own, some at a time."""
    one = lambda entry: experiment.test(graph, *entry)
    at_once = CACHED_BATCH if jax.default_backend() == "cpu" else TEST_BATCH
    return jax.lax.map(one, (rows, keys), batch_size=at_once)
