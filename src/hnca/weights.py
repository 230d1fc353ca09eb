"""Objectives with weights: a component, or an example, may count for more or less than 1."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from .counterfactual import Counterfactuals
from .graph import AbstractComponent, Graph, Node, Sample

Weights = ArrayLike | Mapping[str, ArrayLike]  # of every example, or of components by name


class Weighted(AbstractComponent):
    """A component times one number an example. All that is asked of a component is linear in it,
    so no estimator need know."""

    component: AbstractComponent
    weight: Float[Array, " B"]

    def __init__(self, component: AbstractComponent, weight: Float[Array, " B"]):
        self.component, self.weight = component, weight

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.component.name

    @property
    def opaque(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.component.opaque

    @property
    def has_parameters(self) -> bool:
        return self.component.has_parameters

    def inputs(self, graph: Graph) -> tuple[str, ...]:
        return self.component.inputs(graph)

    def check(self, graph: Graph, widths: Mapping[str, int]) -> None:
        self.component.check(graph, widths)

    def check_values(self, graph: Graph, arrays: Mapping[str, Array]) -> None:
        self.component.check_values(graph, arrays)

    def value(self, graph: Graph, sample: Sample) -> Float[Array, " B"]:
        return jax.lax.stop_gradient(self.weight) * self.component.value(graph, sample)

    def change(self, tables: Counterfactuals, name: str) -> Float[Array, "V B U"]:
        return self.weight[None, :, None] * self.component.change(tables, name)

    def conditionals(self) -> dict[str, Node]:
        return self.component.conditionals()

    def direct_credit(self, graph: Graph, sample: Sample) -> dict[str, Float[Array, "B ..."]]:
        return scaled(self.component.direct_credit(graph, sample), self.weight)


def scaled(
    credit: dict[str, Float[Array, "_ ..."]], weight: Float[Array, " B"]
) -> dict[str, Float[Array, "_ ..."]]:
    """The credit of each example, times a number. Where a batch has several samples of an example,
    they are neighbours."""

    def product(each: Float[Array, "kB ..."]) -> Float[Array, "kB ..."]:
        numbers = jnp.repeat(weight, len(each) // len(weight))
        return each * numbers.reshape(-1, *[1] * (each.ndim - 1))

    return {name: product(each) for name, each in credit.items()}


def weighted(graph: Graph, weights: Mapping[str, Float[Array, " B"]]) -> Graph:
    """The graph whose objective has these weights; the graph itself if there are none."""
    if not weights:
        return graph
    weigh = lambda part: Weighted(part, weights[part.name]) if part.name in weights else part
    return graph.with_components(weigh)


def unweighted(graph: Graph) -> Graph:
    """The inverse, for gradients: a pytree like the graph without weights."""
    return graph.with_components(
        lambda part: part.component if isinstance(part, Weighted) else part
    )
