"""Double control variates (Titsias and Shi 2022): leave-one-out, less what Taylor expansions say.

Derivation. Take a node, given its parents, and K samples of it: values b_k, expanded, with mean
mu, and what came of them, f_k. Let s_j be any vector that depends on no other sample than the j-th:
here F'(b_j), the derivative of the components downstream at b_j, with every unit below at its mean.
Expanded around sample j, the value at b_k is f_j + s_j (b_k - b_j), and what is left is

    R_kj  =  f_k - f_j - s_j (b_k - b_j)

Of R_kj, only f_k - s_j b_k goes with b_k; score_k times the rest has mean 0, and score_k times
s_j b_k has mean s_j dmu/dlogits. So

    credit  =  1/K sum_k  [ score_k x mean over j /= k of R_kj ]  +  mean of s_j x dmu/dlogits

has the expectation of score x f. The two control variates: s_j (b_k - mu) on the signal of sample
k, whose part in the mean is known, and s_j (b_j - mu) on f_j in its leave-one-out baseline. Both
have coefficient 1 here. Without s this is leave-one-out.
"""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from ..credit import Assigned, Credit
from ..graph import Graph, Node, Sample
from .base import (
    AbstractEstimator,
    Values,
    downstream_value,
    reinforced,
    required,
    total,
)
from .relaxed import expansion, linear_credit


class DoubleCV(AbstractEstimator):
    """Leave-one-out with two control variates, from derivatives at each sample of a layer.

    >>> estimator = hnca.DoubleCV()
    >>> estimate, _ = estimator(graph, sample, estimator.init(graph, key=key), key=key)
    >>> estimate.credit["h1"].shape
    (5, 3)
    """

    samples: int = eqx.field(default=2, static=True)
    unbiased: ClassVar[bool] = True
    needs_objective: ClassVar[bool] = True

    def __check_init__(self):
        if self.samples < 2:
            raise ValueError(f"DoubleCV: needs at least 2 samples, not {self.samples}")

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
        credit: Credit = {}
        for node, each in zip(graph.nodes, keys, strict=True):
            first = sample[node.name], total(graph.downstream(node.name), values, sample)
            others = jax.vmap(lambda key, node=node: _drawn(graph, sample, node, key))(
                jax.random.split(each, self.samples - 1)
            )
            taken, signals = jax.tree.map(
                lambda one, more: jnp.concatenate([one[None], more]), first, others
            )
            credit[node.name] = double_credit(graph, sample, node, taken, signals)
        return [(sample, credit)], state


def _drawn(
    graph: Graph, sample: Sample, node: Node, key: PRNGKeyArray
) -> tuple[Array, Float[Array, " B"]]:
    """Other values of the node, and what comes of them."""
    own, below = jax.random.split(key)
    taken = node.layer.sample(sample.logits[node.name], own)
    again = graph.resample(below, sample, node.name, taken)
    return taken, downstream_value(graph, again, node.name)


def double_credit(
    graph: Graph,
    sample: Sample,
    node: Node,
    taken: Array,  # [S, B, ...]
    signals: Float[Array, "S B"],
) -> Float[Array, "B ..."]:
    """The credit from S samples of a node and what came of them."""
    layer, logits = node.layer, sample.logits[node.name]
    flat = lambda array: array.reshape(*array.shape[:2], -1)
    expanded = jax.vmap(layer.expand)(taken)
    slopes = jax.vmap(lambda at: expansion(graph, sample, node.name, at)[1])(expanded)
    along = jnp.einsum("kbi,jbi->kjb", flat(expanded), flat(slopes))  # s_j b_k
    own = jnp.sum(flat(expanded) * flat(slopes), axis=-1)  # s_j b_j
    left = signals[:, None] - signals[None] - along + own[None]  # R, [S, S, B]
    gains = jnp.sum(left, axis=1) / (len(signals) - 1)
    credits = jax.vmap(lambda values, gain: reinforced(layer, logits, values, gain))(taken, gains)
    return jnp.mean(credits, axis=0) + linear_credit(layer, logits, jnp.mean(slopes, axis=0))
