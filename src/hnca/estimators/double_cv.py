"""Double control variates (Titsias and Shi 2022): leave-one-out, less what derivatives explain.

Derivation. Take a node, given its parents, and K samples of it: values b_k, expanded, with mean
mu, and what came of them, f_k. Let s_j be any vector that depends on no other sample than the j-th:
here F'(b_j), the derivative of the components downstream at b_j, with every unit below at its mean.
With the mean slope of the others, s_-k, a control variate for each sample is

    c_k  =  s_-k (b_k - mu),     s_-k = mean over j /= k of s_j

and it is subtracted, times a coefficient a, from f_k and from each f_j in the baseline of f_k:

    credit  =  1/K sum_k  score_k x [ f_k - a c_k - mean over j /= k of (f_j - a c_j) ]
               +  a x mean of s_j x dmu/dlogits

Why that is unbiased: score_k c_k has the mean s_-k dmu/dlogits, as s_-k does not know b_k, and that
is what the last term returns; score_k c_j has the mean 0, as b_j - mu has, whatever s_-j is. The
coefficient is learned, for each node, from 0, which is leave-one-out (tuned.py).
"""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from ..graph import Graph, Node, Sample
from .base import drawn_anew, reinforced
from .relaxed import expansion, linear_credit
from .tuned import AbstractTuned


class DoubleCV(AbstractTuned):
    """Leave-one-out with two control variates, from derivatives at each sample of a layer.

    >>> estimator = hnca.DoubleCV()
    >>> estimate, _ = estimator(graph, sample, estimator.init(graph), key=key)
    >>> estimate.credit["h1"].shape
    (5, 3)
    """

    samples: int = eqx.field(default=2, static=True)
    learning_rate: float = eqx.field(default=1e-3, static=True)
    unbiased: ClassVar[bool] = True
    needs_objective: ClassVar[bool] = True

    def __check_init__(self):
        if self.samples < 2:
            raise ValueError(f"DoubleCV: needs at least 2 samples, not {self.samples}")

    def parameters(self, graph: Graph, key: PRNGKeyArray | None) -> PyTree:
        return {name: jnp.zeros(()) for name in graph.node_names}

    def credit(
        self,
        parameters: PyTree,
        graph: Graph,
        sample: Sample,
        node: Node,
        signal: Float[Array, " B"],
        key: PRNGKeyArray,
    ) -> Float[Array, "B ..."]:
        others = jax.vmap(lambda key: drawn_anew(graph, sample, node, key))(
            jax.random.split(key, self.samples - 1)
        )
        taken, signals = jax.tree.map(
            lambda one, more: jnp.concatenate([one[None], more]),
            (sample[node.name], signal),
            others,
        )
        return double_credit(graph, sample, node, taken, signals, parameters)


def double_credit(
    graph: Graph,
    sample: Sample,
    node: Node,
    taken: Array,  # [S, B, ...]
    signals: Float[Array, "S B"],
    coefficient: Float[Array, ""],
) -> Float[Array, "B ..."]:
    """The credit from S samples of a node and what came of them."""
    layer, logits, others = node.layer, sample.logits[node.name], len(signals) - 1
    expanded = jax.vmap(layer.expand)(taken)
    slopes = jax.vmap(lambda at: expansion(graph, sample, node.name, at)[1])(expanded)
    of_others = (jnp.sum(slopes, axis=0, keepdims=True) - slopes) / others  # s_-k
    away = of_others * (expanded - layer.mean(logits)[None])
    left = signals - coefficient * jnp.sum(away, axis=tuple(range(2, away.ndim)))  # f_k - a c_k
    gains = left - (jnp.sum(left, axis=0, keepdims=True) - left) / others
    credits = jax.vmap(lambda values, gain: reinforced(layer, logits, values, gain))(taken, gains)
    known = linear_credit(layer, logits, jnp.mean(slopes, axis=0))
    return jnp.mean(credits, axis=0) + coefficient * known
