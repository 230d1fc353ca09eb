"""The paper's contextual bandits: name the digit, and be told no more than whether it was right."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
from jaxtyping import Array, Float, PRNGKeyArray

from ...estimators import AbstractEstimator
from ...graph import Graph
from ...models import bandit_policy, conv_policy
from ..data import Dataset
from ..errors import UserError
from .base import Step
from .images import AbstractImageExperiment, Images, pixels_of


@dataclass(frozen=True)
class AbstractBandit(AbstractImageExperiment):
    """A policy that is rewarded with 1 for the label of the image, with 0 for any other."""

    measure: ClassVar[str] = "accuracy"

    def images(self, dataset: Dataset) -> Images:
        if dataset.classes < 2:
            raise UserError(f"{dataset.name} has one class: a bandit needs two or more to choose")
        return super().images(dataset)

    def step(self, rows: dict[str, Array], key: PRNGKeyArray) -> Step:
        right = lambda sample: sample["action"] == rows["label"]
        return Step({"x": pixels_of(key, rows["image"])}, right)

    def test(
        self, graph: Graph, row: dict[str, Array], key: PRNGKeyArray
    ) -> dict[str, Float[Array, ""]]:
        pixel_key, action_key = jax.random.split(key)
        x = pixels_of(pixel_key, row["image"][None])
        action = graph.sample(action_key, x=x)["action"][0]
        return {"test_accuracy": (action == row["label"]).astype(float)}

    def objection(self, estimator: AbstractEstimator) -> str | None:
        if not estimator.needs_objective:
            return None
        return "evaluates the objective again, but a bandit's reward comes once, from outside"


@dataclass(frozen=True)
class Bandit(AbstractBandit):
    """A contextual bandit: layers of stochastic units, then a softmax, name the digit."""

    layers: int = 3
    """Hidden layers; 1, 2 and 3 in the paper."""
    units: int = 200
    """Units in each hidden layer."""

    told: ClassVar[tuple[str, ...]] = ("estimator", "layers")
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"paper": {}, "quick": {"epochs": 10}}

    def graph(self, data: Images, key: PRNGKeyArray) -> Graph:
        return bandit_policy(data.pixels, [self.units] * self.layers, data.classes, key=key)

    @property
    def title(self) -> str:
        return f"bandit-{self.layers}-{self.estimator}"

    def check(self) -> None:
        super().check()
        self.check_positive("layers", "units")
        self.check_layers(self.layers)


@dataclass(frozen=True)
class ConvBandit(AbstractBandit):
    """The same bandit with two deterministic convolutions below one hidden layer."""

    units: int = 200
    """Stochastic units in the hidden layer."""
    channels: int = 16
    """Of each of the two convolutions."""

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": {},
        "quick": {"epochs": 4, "train_size": 10_000},
    }

    def graph(self, data: Images, key: PRNGKeyArray) -> Graph:
        height, width = data.shape
        if min(height, width) < 5:
            raise UserError(f"two convolutions need 5 x 5 pixels or more, not {height} x {width}")
        return conv_policy(data.shape, self.units, data.classes, channels=self.channels, key=key)

    @property
    def title(self) -> str:
        return f"conv-bandit-{self.estimator}"

    def check(self) -> None:
        super().check()
        self.check_positive("channels", "units")
