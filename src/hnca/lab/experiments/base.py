"""What an experiment is: settings that the command line shows, and a graph, a step and a test
that the training engine runs."""

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray, UInt8

from ...estimators import REGISTRY, AbstractEstimator, make_estimator
from ...exact import World
from ...graph import Graph
from ...optimizers import maximize
from ..data import NAMES, Dataset
from ..errors import UserError

POSITIVE = (
    "epochs",
    "updates",
    "batch_size",
    "learning_rate",
    "train_size",
    "test_size",
    "eval_every",
)


@dataclass(frozen=True)
class AbstractExperiment(ABC):
    """The settings that all experiments share, the paper's by default. A run depends on nothing
    else but the versions of the software and the machine."""

    estimator: str = "hnca+baseline"
    """How the gradient is estimated. A wrong name lists the right ones."""
    epochs: int = 100
    """How often to go through the training images. A finished run goes on when this is raised."""
    seed: int = 0
    """Of everything random: the initial weights, the order of the images, the units."""
    dataset: str = "mnist"
    """mnist, fashion-mnist, glyphs, or a directory with the four idx files."""
    batch_size: int = 50
    """Images in one step."""
    learning_rate: float = 1e-4
    """Step size of the optimizer."""
    optimizer: Literal["adam", "sgd", "rmsprop", "adamw"] = "adam"
    """From optax, with its other settings at their defaults."""
    updates: int | None = None
    """Train for so many steps instead of --epochs, rounded up to whole epochs."""
    eval_every: int = 1
    """Test after every so many epochs; the summary has a test after the last one anyway."""
    train_size: int | None = None
    """Train on the first so many images only."""
    test_size: int | None = None
    """Test on the first so many images only."""

    name: ClassVar[str]
    """What the command line calls it."""
    titled: ClassVar[tuple[str, ...]]
    """The settings that the title tells."""
    measure: ClassVar[str]
    """What the objective's mean is called: `accuracy`, say, for `train_accuracy`."""

    @abstractmethod
    def graph(self, data: Dataset, key: PRNGKeyArray) -> Graph:
        """The untrained network."""

    @abstractmethod
    def step(
        self, x: Float[Array, "B pixels"], labels: UInt8[Array, " B"]
    ) -> tuple[dict[str, Array], World | None]:
        """The context of a training step, and the world's answer."""

    @abstractmethod
    def test(
        self, graph: Graph, x: Float[Array, " pixels"], label: UInt8[Array, ""], key: PRNGKeyArray
    ) -> dict[str, Float[Array, ""]]:
        """Metrics of one test image; the run reports their means."""

    @abstractmethod
    def measured_layers(self, graph: Graph) -> Sequence[str]:
        """Those that the paper's mean gradient variance is over."""

    @abstractmethod
    def objection(self, estimator: AbstractEstimator) -> str | None:
        """Why the method cannot do this experiment, if it cannot."""

    @classmethod
    @abstractmethod
    def quick(cls) -> "AbstractExperiment":
        """Settings for a run of about a minute."""

    @property
    @abstractmethod
    def title(self) -> str:
        """Task, size and method in a few words, fit for the name of a directory."""

    def located(self) -> "AbstractExperiment":
        """The same, with whole paths: workers may have been started elsewhere."""
        path = os.path.expanduser(self.dataset)
        if self.dataset in NAMES or not os.path.isdir(path):
            return self
        return replace(self, dataset=os.path.abspath(path))

    def check(self) -> None:
        """Refuses settings that make no sense, before anything is done."""
        if self.estimator not in REGISTRY:
            fit = [name for name in REGISTRY if not self.objection(make_estimator(name))]
            known = ", ".join(fit)
            raise UserError(f"unknown estimator '{self.estimator}': choose one of {known}")
        if objection := self.objection(self.make_estimator()):
            raise UserError(f"estimator '{self.estimator}' {objection}")
        if not 0 <= self.seed < 2**32:
            raise UserError(f"--seed must be from 0 to {2**32 - 1}, not {self.seed}")
        for name in POSITIVE:
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise UserError(f"--{name.replace('_', '-')} must be above 0, not {value}")

    def make_estimator(self) -> AbstractEstimator:
        """The method, in the paper's settings."""
        return make_estimator(self.estimator)

    def make_optimizer(self) -> optax.GradientTransformation:
        """The optimizer, uphill."""
        return maximize(getattr(optax, self.optimizer)(self.learning_rate))


def binarise(key: PRNGKeyArray, images: UInt8[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Each pixel 1 with the probability that is its intensity."""
    return jax.random.bernoulli(key, images / jnp.float32(255)).astype(jnp.float32)
