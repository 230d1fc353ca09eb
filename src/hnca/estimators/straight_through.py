"""Backpropagation, as if a unit's value were its mean."""

from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from ..credit import Credit
from ..graph import Graph, Sample
from .base import AbstractEstimator, Assigned, Values, bernoulli_nodes


class StraightThrough(AbstractEstimator):
    """Straight-through (Bengio et al. 2013). Biased: it takes the derivative of the objective with
    respect to a unit's value for the effect of changing that value, which is right only where
    everything downstream is linear. For reference, not for claims.

    >>> estimator = hnca.StraightThrough()
    >>> estimate, _ = estimator(graph, sample, estimator.init(graph))
    >>> estimate.credit["h1"].shape
    (5, 3)
    """

    unbiased: ClassVar[bool] = False
    needs_objective: ClassVar[bool] = True

    def init(self, graph: Graph, *, key: PRNGKeyArray | None = None) -> PyTree:
        return {}

    def assign(
        self,
        graph: Graph,
        sample: Sample,
        values: Values,
        state: PyTree,
        key: PRNGKeyArray | None,
    ) -> tuple[Assigned, PyTree]:
        layers = list(bernoulli_nodes(graph, self))

        def objective(offsets: Credit) -> Float[Array, ""]:
            """The sample's objective, with values that follow offsets of their logits. What reads
            logits directly does not see the offsets: that is not influence of the values."""
            moved = Sample(
                {name: sample[name] for name in graph.context_names}, {}, sample.log_prob
            )
            for node, layer in layers:
                logits = layer(graph.features(moved, node.parents))
                rest, active = layer.values
                mean = rest + (active - rest) * jax.nn.sigmoid(logits + offsets[node.name])
                moved.values[node.name] = mean + jax.lax.stop_gradient(sample[node.name] - mean)
                moved.logits[node.name] = logits
            return jnp.sum(graph.value(moved))

        none = {node.name: jnp.zeros_like(sample.logits[node.name]) for node in graph.nodes}
        return [(sample, jax.grad(objective)(none))], state
