"""The paper's contextual bandits: name the digit, and be told no more than whether it was right."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Array, Float, PRNGKeyArray, UInt8

from ...credit import parameter_counts
from ...estimators import AbstractEstimator
from ...exact import World
from ...graph import Graph
from ...models import bandit_policy, conv_policy
from ..data import Dataset
from ..errors import UserError
from .base import AbstractExperiment


@dataclass(frozen=True)
class AbstractBandit(AbstractExperiment):
    """A policy that is rewarded with 1 for the label of the image, with 0 for any other."""

    measure: ClassVar[str] = "accuracy"
    sizes: ClassVar[tuple[str, str]]
    """The two settings that are sizes of the network."""

    def check(self) -> None:
        super().check()
        if any(getattr(self, name) < 1 for name in self.sizes):
            flags = " ".join(f"--{name} {getattr(self, name)}" for name in self.sizes)
            raise UserError(f"{flags}: both must be 1 or more")

    def step(
        self, x: Float[Array, "B pixels"], labels: UInt8[Array, " B"]
    ) -> tuple[dict[str, Array], World | None]:
        return {"x": x}, lambda sample: sample["action"] == labels

    def test(
        self, graph: Graph, x: Float[Array, " pixels"], label: UInt8[Array, ""], key: PRNGKeyArray
    ) -> dict[str, Float[Array, ""]]:
        action = graph.sample(key, x=x[None])["action"][0]
        return {"test_accuracy": (action == label).astype(float)}

    def measured_layers(self, graph: Graph) -> Sequence[str]:
        return list(parameter_counts(graph))

    def objection(self, estimator: AbstractEstimator) -> str | None:
        if not estimator.needs_objective:
            return None
        return (
            "evaluates the objective again, but a bandit's reward comes once, from outside: "
            "use hnca or reinforce, with or without +baseline"
        )


@dataclass(frozen=True)
class Bandit(AbstractBandit):
    """A contextual bandit: layers of stochastic units, then a softmax, name the digit."""

    layers: int = 3
    """Hidden layers; 1, 2 and 3 in the paper."""
    units: int = 200
    """Units in each hidden layer."""

    name: ClassVar[str] = "bandit"
    titled: ClassVar[tuple[str, ...]] = ("estimator", "layers")
    sizes: ClassVar[tuple[str, str]] = ("layers", "units")

    def graph(self, data: Dataset, key: PRNGKeyArray) -> Graph:
        return bandit_policy(data.pixels, [self.units] * self.layers, data.classes, key=key)

    @classmethod
    def quick(cls) -> "Bandit":
        return cls(epochs=10)

    @property
    def title(self) -> str:
        return f"bandit-{self.layers}-{self.estimator}"


@dataclass(frozen=True)
class ConvBandit(AbstractBandit):
    """The same bandit with two deterministic convolutions below one hidden layer."""

    units: int = 200
    """Stochastic units in the hidden layer."""
    channels: int = 16
    """Of each of the two convolutions."""

    name: ClassVar[str] = "conv-bandit"
    titled: ClassVar[tuple[str, ...]] = ("estimator",)
    sizes: ClassVar[tuple[str, str]] = ("channels", "units")

    def graph(self, data: Dataset, key: PRNGKeyArray) -> Graph:
        height, width = data.train_images.shape[1:]
        if min(height, width) < 5:
            raise UserError(f"two convolutions need 5 x 5 pixels or more, not {height} x {width}")
        return conv_policy(
            (height, width), self.units, data.classes, channels=self.channels, key=key
        )

    @classmethod
    def quick(cls) -> "ConvBandit":
        return cls(epochs=4, train_size=10_000)

    @property
    def title(self) -> str:
        return f"conv-bandit-{self.estimator}"
