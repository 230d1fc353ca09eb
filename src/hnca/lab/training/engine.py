"""The compiled programs of a run: one for an epoch of training, one for a test."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PRNGKeyArray, UInt8

from ...credit import parameter_counts
from ...graph import Graph
from ..data import Dataset
from ..errors import UserError
from ..experiments import AbstractExperiment, binarise
from .devices import Devices
from .epoch import Metrics, TrainState, epoch_program
from .side_by_side import SideBySide

TEST_BATCH = 500  # images at a time: bounds the memory of a test


class Split(eqx.Module):
    """Images with a pixel an entry, and their labels, on the device."""

    images: UInt8[Array, "N pixels"]
    labels: UInt8[Array, " N"]

    @staticmethod
    def of(images: np.ndarray, labels: np.ndarray, size: int | None, flag: str) -> "Split":
        """The first so many of the images, or all."""
        if size is not None and size > len(images):
            raise UserError(f"{flag} {size}: there are no more than {len(images)} images")
        images = images[:size]
        return Split(jnp.asarray(images.reshape(len(images), -1)), jnp.asarray(labels[:size]))

    def __getitem__(self, rows: slice) -> "Split":
        return Split(self.images[rows], self.labels[rows])


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


class Engine:
    """An experiment on a data set, for one seed or for several side by side: the states, networks
    and seeds of the runs come in lists, and so do the results."""

    def __init__(
        self, experiment: AbstractExperiment, data: Dataset, devices: Devices | None = None
    ):
        self.experiment, self.devices = experiment, devices or Devices()
        train_size, test_size = experiment.train_size, experiment.test_size
        train_set = Split.of(data.train_images, data.train_labels, train_size, "--train-size")
        test_set = Split.of(data.test_images, data.test_labels, test_size, "--test-size")
        self.steps = self._count_steps(len(train_set.labels))
        self.train_set, self.test_set = self.devices.everywhere((train_set, test_set))
        self.epochs = experiment.epochs
        if experiment.updates is not None:
            self.epochs = math.ceil(experiment.updates / self.steps)
        self._make_graph = lambda seed: experiment.graph(data, Keys.of(seed).graph)
        self.graph = self._make_graph(experiment.seed)
        counts = parameter_counts(self.graph)
        self._counts = {name: counts[name] for name in experiment.measured_layers(self.graph)}
        self._estimator, self._optimizer = experiment.make_estimator(), experiment.make_optimizer()
        self._epoch_program = epoch_program(self._estimator, self._optimizer, self._step)
        self._epoch = SideBySide(self._train_program, self.devices, donate=True)
        self._test = SideBySide(self._test_program, self.devices)

    def _count_steps(self, images: int) -> int:
        batch, devices = self.experiment.batch_size, len(self.devices)
        if batch > images:
            raise UserError(f"--batch-size {batch} is more than {images} images")
        if batch % devices:
            raise UserError(f"--batch-size {batch} must be a multiple of the {devices} devices")
        return images // batch

    def start(self, seed: int | None = None) -> TrainState:
        """The state before the first step, by default of the experiment's own seed."""
        seed = self.experiment.seed if seed is None else seed
        return TrainState.start(
            self._make_graph(seed), self._estimator, self._optimizer, Keys.of(seed).state
        )

    def compile(self, states: Sequence[TrainState]) -> None:
        """Gets both programs ready, for so many runs."""
        keys = [Keys.of(self.experiment.seed).epoch] * len(states)  # any will do
        self._epoch.compile(self.train_set, keys, states)
        self._test.compile(self.test_set, keys, [state.graph for state in states])

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
        """Mean metrics over the test images, freshly binarised."""
        keys = [jax.random.fold_in(Keys.of(seed).test, epoch) for seed in seeds]
        return self._test(self.test_set, keys, graphs)

    def summarise(self, metrics: Metrics) -> dict[str, float]:
        """Means over the steps of an epoch, and over the parameters of the layers."""
        means = {name: float(np.mean(values)) for name, values in metrics.items()}
        variances = {name: means[f"variance/{name}"] for name in self._counts}
        total = sum(count * variances[name] for name, count in self._counts.items())
        return {
            f"train_{self.experiment.measure}": means["value"],
            "gradient_variance": total / sum(self._counts.values()),
            **{f"gradient_variance/{name}": value for name, value in variances.items()},
        }

    def _train_program(
        self, split: Split, key: PRNGKeyArray, state: TrainState
    ) -> tuple[TrainState, Metrics]:
        return self._epoch_program(self._deal(split, key), state)

    def _deal(self, split: Split, key: PRNGKeyArray) -> tuple[Array, Array, Array]:
        """The batches of an epoch: every image once (less a remainder), in a fresh order. Each
        device gets an equal part of every batch."""
        order_key, pixel_key = jax.random.split(key)
        order = jax.random.permutation(order_key, len(split.labels))
        rows = order[: self.steps * self.experiment.batch_size].reshape(self.steps, -1)
        images, labels = self.devices.spread((split.images[rows], split.labels[rows]), axis=1)
        return images, labels, jax.random.split(pixel_key, self.steps)

    def _step(self, entry: tuple[Array, Array, PRNGKeyArray]):
        images, labels, key = entry
        return self.experiment.step(binarise(key, images), labels)

    def _test_program(self, split: Split, key: PRNGKeyArray, graph: Graph) -> Metrics:
        measure = lambda part: measured_images(self.experiment, graph, *part)
        keys = jax.random.split(key, len(split.labels))
        by_image = self.devices.in_parts(measure, (split, keys))
        return {name: jnp.mean(values) for name, values in by_image.items()}


def measured_images(
    experiment: AbstractExperiment, graph: Graph, split: Split, keys: Key[Array, " N"]
) -> dict[str, Float[Array, " N"]]:
    """The experiment's test of each image, binarised by its own key, some at a time."""

    def one(entry) -> dict[str, Float[Array, ""]]:
        image, label, key = entry
        pixel_key, test_key = jax.random.split(key)
        return experiment.test(graph, binarise(pixel_key, image), label, test_key)

    return jax.lax.map(one, (split.images, split.labels, keys), batch_size=TEST_BATCH)
