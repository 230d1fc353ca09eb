"""Discrete hierarchical variational autoencoders: the paper's, and one of convolutions."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ...bounds import multi_sample_bound
from ...estimators import (
    ARM,
    HNCA,
    AbstractEstimator,
    DisARM,
    ExpectedSum,
    make_estimator,
)
from ...graph import Graph
from ...models import conv_vae, hierarchical_vae
from ..errors import UsageError, UserError
from .base import MOST, Step
from .images import AbstractImageExperiment, Images, pixels_of

BINARY = (ARM, DisARM)  # methods for units of two values


@dataclass(frozen=True)
class AbstractVAE(AbstractImageExperiment):
    """A graph over binarised images `x` whose objective is the evidence lower bound."""

    kl_warmup: int = 0
    """For so many epochs the weight of the KL terms rises, step by step, from --kl-start to 1."""
    kl_start: float = 0.1
    """The weight of the KL terms (entropies, and what is not the image's) before the first step."""
    eval_every: int = 40
    eval_samples: int = 100
    """Samples of the multi-sample bound on the test images."""

    @property
    def measure(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """What the method climbs: the ELBO, or the bound of several samples."""
        single = isinstance(make_estimator(self.estimator).objective, ExpectedSum)
        return "elbo" if single else "bound"

    def step(self, rows: dict[str, Array], key: PRNGKeyArray) -> Step:
        weights = self._kl_weights if self.kl_warmup else None
        return Step({"x": pixels_of(key, rows["image"])}, weights=weights)

    @property
    @abstractmethod
    def depth(self) -> int:
        """How many layers of units there are: h1, h2, ..."""

    def _kl_weights(self, progress: Float[Array, ""]) -> dict[str, Float[Array, ""]]:
        """Of every component but the image's log-probability."""
        weight = self.kl_start + (1 - self.kl_start) * jnp.minimum(progress / self.kl_warmup, 1)
        layers = [f"h{level}" for level in range(1, self.depth + 1)]
        return {f"{kind}:{layer}": weight for layer in layers for kind in ("H", "p")}

    def test(
        self, graph: Graph, row: dict[str, Array], key: PRNGKeyArray
    ) -> dict[str, Float[Array, ""]]:
        pixel_key, sample_key = jax.random.split(key)
        x = pixels_of(pixel_key, row["image"][None])
        elbo_key, bound_key = jax.random.split(sample_key)
        elbo = graph.value(graph.sample(elbo_key, x=x))[0]
        bound = multi_sample_bound(graph, bound_key, self.eval_samples, x=x)[0]
        return {"test_elbo": elbo, "test_bound": bound}

    def measured_layers(self, graph: Graph) -> Sequence[str]:
        return graph.node_names  # the encoder

    def check(self) -> None:
        super().check()
        self.check_positive("eval_samples")
        if not 0 <= self.kl_start <= 1:
            raise UsageError(f"--kl-start must be from 0 to 1, not {self.kl_start}")
        self.check_positive("kl_warmup", or_zero=True)
        if self.kl_warmup and self.measure != "elbo":
            raise UsageError(
                f"--kl-warmup is of the ELBO's terms, and {self.estimator} climbs another bound: "
                "leave --kl-warmup out"
            )


@dataclass(frozen=True)
class VAE(AbstractVAE):
    """A variational autoencoder with layers of discrete stochastic units."""

    epochs: int = 840
    layers: int | None = None
    """Hidden layers; 1, 2 and 3 in the paper. As many as there are --units, by default."""
    units: tuple[int, ...] = (200,)
    """Units in each layer, from the pixels up; one number is for all layers."""
    categories: int = 2
    """Values that a hidden unit can take: above 2, units are categorical."""
    prune_children: bool = True
    """No credit through children that a component cannot be reached from (hnca only)."""
    downstream_only: bool = True
    """No credit for components that are not downstream of a unit (hnca only)."""

    told: ClassVar[tuple[str, ...]] = (
        "estimator",
        "layers",
        "units",
        "categories",
        "prune_children",
        "downstream_only",
    )
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": {},
        "quick": {"epochs": 10, "eval_every": 10, "eval_samples": 10},
        "best": {
            "estimator": "hnca+baseline",
            "epochs": 84,
            "learning_rate": 3e-3,
            "schedule": "cosine",
        },
    }

    @property
    def depth(self) -> int:
        return len(self.sizes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The units of each layer."""
        if self.layers is None or len(self.units) == self.layers:
            return self.units
        return self.units * self.layers

    def graph(self, data: Images, key: PRNGKeyArray) -> Graph:
        return hierarchical_vae(data.pixels, self.sizes, categories=self.categories, key=key)

    def objection(self, estimator: AbstractEstimator) -> str | None:
        if self.categories > 2 and isinstance(estimator, BINARY):
            return "is for units of two values, as they are without --categories"
        ablated = not (self.prune_children and self.downstream_only)
        if ablated and not isinstance(estimator, HNCA):
            return "has no --no-prune-children or --no-downstream-only: they are ablations of hnca"
        return None

    def make_estimator(self) -> AbstractEstimator:
        estimator = super().make_estimator()
        if not isinstance(estimator, HNCA):
            return estimator
        switches = {"prune_children": self.prune_children, "downstream_only": self.downstream_only}
        return replace(estimator, **switches)

    @property
    def title(self) -> str:
        size = "x".join(map(str, self.sizes))
        if len(self.sizes) == 1:
            size = f"{size}-units"  # `vae-2` has two layers
        if self.sizes == (200,) * len(self.sizes):
            size = str(len(self.sizes))
        kind = "" if self.categories == 2 else f"-{self.categories}-way"
        pruned = "" if self.prune_children else "-unpruned"
        full = "" if self.downstream_only else "-full-reward"
        return f"vae-{size}{kind}-{self.estimator}{pruned}{full}"

    def check(self) -> None:
        super().check()
        self.check_positive("layers", "categories")
        self.check_layers(len(self.units) if self.layers is None else self.layers)
        if not self.units or min(self.units) < 1:
            raise UsageError("--units must be one or more sizes, each 1 or more")
        if max(self.units) >= MOST:
            raise UsageError(f"--units must be below {MOST:,}, not {max(self.units)}")
        if self.layers is not None and len(self.sizes) != self.layers:
            given = f"--layers {self.layers}, but {len(self.units)} --units"
            raise UsageError(f"{given}: give one size, or one for each layer")
        if self.categories < 2:
            raise UsageError(f"--categories must be 2 or more, not {self.categories}")


@dataclass(frozen=True)
class ConvVAE(AbstractVAE):
    """A variational autoencoder with pictures of discrete stochastic units."""

    epochs: int = 20
    eval_every: int = 10
    channels: tuple[int, ...] = (16, 32)
    """Of each layer, from the pixels up; each has half the height and width of what is below."""
    kernel: int = 4
    """Height and width of the convolutions' kernels."""

    told: ClassVar[tuple[str, ...]] = ("estimator", "channels")
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": {},  # not in the paper: the defaults
        "quick": {"epochs": 1, "train_size": 10_000, "eval_every": 1, "eval_samples": 10},
    }

    @property
    def depth(self) -> int:
        return len(self.channels)

    def graph(self, data: Images, key: PRNGKeyArray) -> Graph:
        try:
            return conv_vae(data.shape, self.channels, kernel=self.kernel, key=key)
        except ValueError as error:
            raise UserError(str(error)) from None

    @property
    def title(self) -> str:
        usual = self.channels == type(self).channels
        size = "" if usual else "-" + "x".join(map(str, self.channels))
        return f"conv-vae{size}-{self.estimator}"

    def check(self) -> None:
        super().check()
        if not self.channels or min(self.channels) < 1:
            raise UsageError("--channels must be one or more numbers, each 1 or more")
        if self.kernel < 2:
            raise UsageError(f"--kernel must be 2 or more, not {self.kernel}: strides are of 2")
