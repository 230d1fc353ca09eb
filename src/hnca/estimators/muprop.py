"""MuProp (Gu et al. 2016): what a Taylor expansion around the means says is not left to chance.

Derivation. Take a node, given its parents. Let b be its values, expanded, mu = E[b] their mean, and
f what came downstream. Let F(v) be the components downstream with the node at v and every unit
below at its mean, given all that does not descend from the node. Then c = F(mu) + F'(mu)(b - mu) is
linear in b, with coefficients that do not depend on it: so E[c score] = F'(mu) dmu/dlogits, and

    credit  =  score x (f - F(mu) - F'(mu)(b - mu))  +  F'(mu) dmu/dlogits

has the expectation of score x f. (As for every method here, b is independent of what does not
descend from the node, given its parents, and E[f | b] is all that matters of f.)

The paper's mean-field pass starts at the network's inputs. Here it starts at each node, from the
values that its parents took, which is closer to what follows. It costs a pass for each node.
"""

from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from ..credit import Assigned
from ..graph import Graph, Node, Sample
from .base import AbstractEstimator, Values, reinforced, total
from .relaxed import expansion, linear_credit


class MuProp(AbstractEstimator):
    """REINFORCE with a first-order expansion around the mean-field pass as control variate.

    >>> estimator = hnca.MuProp()
    >>> estimate, _ = estimator(graph, sample, estimator.init(graph, key=key), key=key)
    >>> estimate.credit["h1"].shape
    (5, 3)
    """

    unbiased: ClassVar[bool] = True
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
        def credit(node: Node) -> Float[Array, "B ..."]:
            layer, logits, taken = node.layer, sample.logits[node.name], sample[node.name]
            mean = layer.mean(logits)
            value, slope = expansion(graph, sample, node.name, mean)
            first_order = (slope * (layer.expand(taken) - mean)).reshape(sample.batch, -1)
            signal = total(graph.downstream(node.name), values, sample)
            gain = signal - value - jnp.sum(first_order, axis=1)
            return reinforced(layer, logits, taken, gain) + linear_credit(layer, logits, slope)

        return [(sample, {node.name: credit(node) for node in graph.nodes})], state
