"""The compiled programs of a run: one for an epoch of training, one for a test."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PRNGKeyArray, UInt8

from ..credit import parameter_counts
from ..data import Dataset
from ..errors import UserError
from ..experiments import AbstractExperiment, binarise
from ..graph import Graph
from .epoch import TrainState, make_epoch

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


class Engine:
    """An experiment on a data set. All that is random in epoch n comes of the seed and n."""

    def __init__(self, experiment: AbstractExperiment, data: Dataset):
        self.experiment = experiment
        self.train_set = Split.of(
            data.train_images, data.train_labels, experiment.train_size, "--train-size"
        )
        self.test_set = Split.of(
            data.test_images, data.test_labels, experiment.test_size, "--test-size"
        )
        self.steps = len(self.train_set.labels) // experiment.batch_size
        if not self.steps:
            size = len(self.train_set.labels)
            raise UserError(f"--batch-size {experiment.batch_size} is more than {size} images")
        self.epochs = experiment.epochs
        if experiment.updates is not None:
            self.epochs = math.ceil(experiment.updates / self.steps)
        keys = jax.random.split(jax.random.key(experiment.seed), 4)
        graph_key, self._state_key, self._epoch_key, self._test_key = keys
        self.graph = experiment.graph(data, graph_key)
        counts = parameter_counts(self.graph)
        self._counts = {name: counts[name] for name in experiment.measured_layers(self.graph)}
        self._estimator, self._optimizer = experiment.make_estimator(), experiment.make_optimizer()
        self._epoch = make_epoch(self._estimator, self._optimizer, self._step, prepare=self._deal)
        self._test = eqx.filter_jit(self._test_program)

    def start(self) -> TrainState:
        """The state before the first step."""
        return TrainState.start(self.graph, self._estimator, self._optimizer, self._state_key)

    def compile(self, state: TrainState) -> None:
        """Gets both programs ready."""
        self._epoch.compile(state, (self.train_set, self._epoch_key))
        self._test = self._test.lower(state.graph, self.test_set, self._test_key).compile()

    def train(self, state: TrainState, epoch: int) -> tuple[TrainState, dict[str, Array]]:
        """One epoch. It may still be under way on the device when this returns."""
        return self._epoch(state, (self.train_set, jax.random.fold_in(self._epoch_key, epoch)))

    def test_is_due(self, epoch: int) -> bool:
        """Whether the metrics of this epoch have a test."""
        return epoch % self.experiment.eval_every == 0

    def test(self, graph: Graph, epoch: int) -> dict[str, Array]:
        """Mean metrics over the test images, freshly binarised."""
        return self._test(graph, self.test_set, jax.random.fold_in(self._test_key, epoch))

    def summarise(self, metrics: dict[str, Array]) -> dict[str, float]:
        """Means over the steps of an epoch, and over the parameters of the layers."""
        means = {name: float(np.mean(values)) for name, values in metrics.items()}
        variances = {name: means[f"variance/{name}"] for name in self._counts}
        total = sum(count * variances[name] for name, count in self._counts.items())
        return {
            f"train_{self.experiment.measure}": means["value"],
            "gradient_variance": total / sum(self._counts.values()),
            **{f"gradient_variance/{name}": value for name, value in variances.items()},
        }

    def _deal(self, inputs: tuple[Split, PRNGKeyArray]) -> tuple[Array, Array, Array]:
        """The batches of an epoch: every image once (less a remainder), in a fresh order."""
        split, key = inputs
        order_key, pixel_key = jax.random.split(key)
        order = jax.random.permutation(order_key, len(split.labels))
        rows = order[: self.steps * self.experiment.batch_size].reshape(self.steps, -1)
        return split.images[rows], split.labels[rows], jax.random.split(pixel_key, self.steps)

    def _step(self, entry: tuple[Array, Array, PRNGKeyArray]):
        images, labels, key = entry
        return self.experiment.step(binarise(key, images), labels)

    def _test_program(self, graph: Graph, split: Split, key: PRNGKeyArray) -> dict[str, Array]:
        keys = jax.random.split(key, len(split.labels))
        by_image = measured_images(self.experiment, graph, split, keys)
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
