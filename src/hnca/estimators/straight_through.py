"""Backpropagation, as if a unit's value moved with its logit: straight-through and ReinMax.

With D the choice made, as a one-hot vector, and pi the policy, straight-through (Bengio et al.
2013) puts d pi / d logits for the effect of the logits on D. That is the forward Euler method: the
objective is expanded to first order at D. ReinMax (Liu et al. 2023) takes Heun's method instead,
which is exact to second order: with pi' = (pi + D) / 2, half-way between policy and choice,

    d D / d logits  ~  2 J(pi') - J(pi) / 2,      J(p) = diag(p) - p p^T

where J(p) is the derivative of the softmax at the probabilities p. For a single unit and an
objective that is a polynomial of second order in its value, the mean over D is exact.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from ..credit import Assigned
from ..graph import Graph, Node, Sample
from .base import AbstractEstimator, Values
from .relaxed import backpropagated, log_policy, mean


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
        return [(sample, backpropagated(graph, sample, mean))], state


class ReinMax(AbstractEstimator):
    """ReinMax (Liu et al. 2023): straight-through to second order. Biased, but less.

    >>> estimator = hnca.ReinMax()
    >>> estimate, _ = estimator(graph, sample, estimator.init(graph, key=key), key=key)
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
        def soft(node: Node, logits: Float[Array, "B ..."]) -> Float[Array, "B U *K"]:
            layer, logs = node.layer, log_policy(node.layer, logits)
            weights = jnp.exp(logs)
            half_way = (weights + layer.indicator(sample[node.name])) / 2
            # A softmax whose probabilities are pi', but which moves with the logits.
            moving = jax.nn.softmax(logs + jax.lax.stop_gradient(jnp.log(half_way) - logs), axis=0)
            return layer.blend(2 * moving - weights / 2)

        return [(sample, backpropagated(graph, sample, soft))], state
