"""Antithetic pairs: ARM, and DisARM, which is ARM with its uniform variables averaged out.

Derivation. A Bernoulli unit with log-odds l fires where a uniform variable u is above
1 - p = sigmoid(-l). Its antithetic twin uses 1 - u, and so fires where u < p. ARM (Yin and Zhou
2019): for units with independent u's and any function f of their values,

    d E[f] / d l_i  =  E[ (f(b) - f(b~)) (u_i - 1/2) ]

where b and b~ are the vectors of values from u and from 1 - u. DisARM (Dong et al. 2020) takes the
expectation of u_i given both values. For p > 1/2 the pair (b_i, b~_i) is (1, 0) where u > p,
(0, 1) where u < 1 - p, and (1, 1) between: the means of u - 1/2 are p/2, -p/2 and 0. For p < 1/2
they are (1-p)/2, -(1-p)/2, and 0 at (0, 0). As max(p, 1-p) = sigmoid(|l|),

    E[u_i - 1/2 | b_i, b~_i]  =  (b_i - b~_i) sigmoid(|l_i|) / 2

Many layers: given its parents' values, a layer is such a set of units, and its f is the expected
sum of the components downstream, given the layer's values. Both identities are linear in f(b) and
f(b~), so any unbiased estimates of the two will do: for f(b), what came of the first pass; for
f(b~), a pass in which the layer is set to b~ and all that descends from it is drawn anew. The
first pass has drawn b already, without showing u: u is drawn here given b, uniformly from where it
must have been.
"""

from abc import abstractmethod
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from ..credit import Assigned, Credit
from ..draws import draw_uniform
from ..graph import Graph, Sample
from ..units import at_least_single
from .base import (
    AbstractEstimator,
    Values,
    bernoulli_nodes,
    downstream_value,
    required,
    total,
)

Units = Float[Array, "B U"]


class AbstractAntithetic(AbstractEstimator):
    """For each layer an antithetic twin of its values, with everything downstream drawn anew."""

    @abstractmethod
    def slope(self, uniform: Units, fired: Units, twin: Units, logits: Units) -> Units:
        """What f(b) - f(b~) is multiplied by."""

    def init(self, graph: Graph, *, key: PRNGKeyArray | None = None) -> PyTree:
        """No state."""
        return {}

    def assign(
        self,
        graph: Graph,
        sample: Sample,
        values: Values,
        state: PyTree,
        key: PRNGKeyArray | None,
    ) -> tuple[Assigned, PyTree]:
        """The credit of each layer from its own pair of samples."""
        keys = jax.random.split(required(key, self), len(graph.nodes))
        credit: Credit = {}
        for (node, layer), each in zip(bernoulli_nodes(graph, self), keys, strict=True):
            draw, below = jax.random.split(each)
            logits = at_least_single(sample.logits[node.name])
            fired = layer.fired(sample[node.name])
            uniform = _uniform_given(fired, logits, draw)
            twin = (uniform < jax.nn.sigmoid(logits)).astype(int)
            again = graph.resample(below, sample, node.name, layer.chosen(twin))
            gain = total(graph.downstream(node.name), values, sample)
            gain -= downstream_value(graph, again, node.name)
            slope = self.slope(uniform, fired, twin.astype(logits.dtype), logits)
            credit[node.name] = gain[:, None] * slope
        return [(sample, credit)], state


class ARM(AbstractAntithetic):
    """Augment-REINFORCE-merge: the uniform variables themselves as slopes.

    >>> estimate, _ = hnca.ARM()(graph, sample, {}, key=key)
    >>> estimate.credit["h1"].shape
    (5, 3)
    """

    unbiased: ClassVar[bool] = True
    needs_objective: ClassVar[bool] = True

    def slope(self, uniform: Units, fired: Units, twin: Units, logits: Units) -> Units:
        return uniform - 0.5


class DisARM(AbstractAntithetic):
    """ARM given the two values, with the uniform variables averaged out: less variance.

    >>> estimate, _ = hnca.DisARM()(graph, sample, {}, key=key)
    >>> estimate.credit["h1"].shape
    (5, 3)
    """

    unbiased: ClassVar[bool] = True
    needs_objective: ClassVar[bool] = True

    def slope(self, uniform: Units, fired: Units, twin: Units, logits: Units) -> Units:
        return (fired - twin) * jax.nn.sigmoid(jnp.abs(logits)) / 2


def _uniform_given(fired: Units, logits: Units, key: PRNGKeyArray) -> Units:
    """The uniform variable behind a unit's value: above sigmoid(-l) if it fired, else below."""
    share = draw_uniform(key, logits.shape, logits.dtype)
    rest, active = jax.nn.sigmoid(-logits), jax.nn.sigmoid(logits)
    return jnp.where(fired > 0.5, 1 - active * share, rest * share)
