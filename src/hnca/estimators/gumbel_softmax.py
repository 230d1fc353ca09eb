"""Concrete variables in place of units: Gumbel-softmax, and its straight-through version.

A choice is where log pi(v) + Gumbel noise is largest. The Concrete distribution (Maddison et al.
2017; Gumbel-softmax, Jang et al. 2017) has a softmax with a temperature in place of the maximum.
With the noise held, its values w are a smooth function of the logits, and

    credit  =  d f(w) / d logits

is an unbiased estimate of d E[f(w)] / d logits: of another objective than E[f(choice)], which it
comes close to at low temperatures, where its variance is large.

In a graph of several layers this is done layer by layer: given what the parents of a node did, the
node and all that descends from it is relaxed. (With everything relaxed at once, as in the papers,
a node's logits would be those for relaxed parents, and not those of the sample.) The noise of the
node is drawn given what it did, that of its descendants is new. Each node costs a pass from there
on, so that the whole grows with the square of the depth. Layers of the objective learn from the
sample.

The straight-through version (Jang et al. 2017) keeps the sample, and uses the relaxed values for
derivatives only: one backward pass for all layers.
"""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from ..credit import Assigned, Credit
from ..draws import draw_gumbel
from ..graph import Graph, Node, Sample
from ..units import at_least_single
from .base import AbstractEstimator, Values, required
from .relaxed import (
    Weights,
    backpropagated,
    check_temperature,
    concrete,
    downstream_at,
    log_policy,
    noise_given,
)


class GumbelSoftmax(AbstractEstimator):
    """Gumbel-softmax, the Concrete distribution in place of units. Biased.

    >>> estimator = hnca.GumbelSoftmax(temperature=0.5)
    >>> estimate, _ = estimator(graph, sample, estimator.init(graph, key=key), key=key)
    >>> estimate.credit["h1"].shape
    (5, 3)
    """

    temperature: float = eqx.field(default=0.5, static=True)
    unbiased: ClassVar[bool] = False
    needs_objective: ClassVar[bool] = True

    def __check_init__(self):
        check_temperature("GumbelSoftmax", self.temperature)

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
        keys = jax.random.split(required(key, self), len(graph.nodes))
        credit: Credit = {
            node.name: self._relaxed(graph, sample, node, each)
            for node, each in zip(graph.nodes, keys, strict=True)
        }
        return [(sample, credit)], state

    def _relaxed(
        self, graph: Graph, sample: Sample, node: Node, key: PRNGKeyArray
    ) -> Float[Array, "B ..."]:
        own, below = jax.random.split(key)
        keys = dict(zip(graph.node_names, jax.random.split(below, len(graph.nodes)), strict=True))
        logits = at_least_single(sample.logits[node.name])
        noise = noise_given(node.layer, logits, sample[node.name], own)

        def relaxed(node: Node, logits: Array, noise: Weights) -> Float[Array, "B U *K"]:
            return concrete(node.layer, log_policy(node.layer, logits) + noise, self.temperature)

        def pick(node: Node, logits: Array) -> Float[Array, "B U *K"]:
            logits = at_least_single(logits)
            table = node.layer.log_odds(logits)
            return relaxed(node, logits, draw_gumbel(keys[node.name], table.shape, table.dtype))

        def value(logits: Array) -> Float[Array, ""]:
            start = relaxed(node, logits, noise)
            return jnp.sum(downstream_at(graph, sample, node.name, start, pick))

        return jax.grad(value)(logits)


class GumbelStraightThrough(AbstractEstimator):
    """Straight-through Gumbel-softmax: backpropagation through the sample, with the derivatives
    of Concrete variables. Biased.

    >>> estimator = hnca.GumbelStraightThrough(temperature=0.5)
    >>> estimate, _ = estimator(graph, sample, estimator.init(graph, key=key), key=key)
    >>> estimate.credit["h1"].shape
    (5, 3)
    """

    temperature: float = eqx.field(default=0.5, static=True)
    unbiased: ClassVar[bool] = False
    needs_objective: ClassVar[bool] = True

    def __check_init__(self):
        check_temperature("GumbelStraightThrough", self.temperature)

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
        keys = jax.random.split(required(key, self), len(graph.nodes))
        noise = {
            node.name: noise_given(node.layer, sample.logits[node.name], sample[node.name], each)
            for node, each in zip(graph.nodes, keys, strict=True)
        }

        def soft(node: Node, logits: Float[Array, "B ..."]) -> Float[Array, "B U *K"]:
            perturbed = log_policy(node.layer, logits) + noise[node.name]
            return concrete(node.layer, perturbed, self.temperature)

        return [(sample, backpropagated(graph, sample, soft))], state
