"""REINFORCE with the other samples of the same example as its baseline."""

from collections.abc import Callable
from typing import ClassVar, Literal

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
    drawn_anew,
    reinforced,
    required,
    total,
)


class LeaveOneOut(AbstractEstimator):
    """REINFORCE leave-one-out (Kool et al. 2019; Appendix "Further Details of Discrete VAE
    Experiments" for two samples). With f(k) the components downstream of a node in sample k of K,

        credit = 1/K sum_k  d log pi(value(k)) / d logits  x  (f(k) - mean of the other f's)

    - `coupling="resample"`: for each node, the further samples share the first pass's parents;
      the node and all that descends from it are drawn anew. Every pass costs a forward pass from
      that node on, so that the whole grows with the square of the depth.
    - `coupling="independent"`: whole forward passes, K in all. The others' units get credit for
      what they did, given their own parents.

    >>> estimator = hnca.LeaveOneOut(samples=4)
    >>> estimate, _ = estimator(graph, sample, estimator.init(graph), key=key)
    >>> estimate.credit["h1"].shape
    (5, 3)
    """

    samples: int = eqx.field(static=True)
    coupling: Literal["resample", "independent"] = eqx.field(static=True)
    unbiased: ClassVar[bool] = True
    needs_objective: ClassVar[bool] = True

    def __init__(self, samples: int = 2, coupling: Literal["resample", "independent"] = "resample"):
        if samples < 2:
            raise ValueError(f"LeaveOneOut: needs at least 2 samples, not {samples}")
        if coupling not in ("resample", "independent"):
            raise ValueError(f"LeaveOneOut: coupling is resample or independent, not {coupling}")
        self.samples, self.coupling = samples, coupling

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
        key = required(key, self)
        if self.coupling == "independent":
            return self._independent(graph, sample, values, key), state
        keys = jax.random.split(key, len(graph.nodes))
        credit: Credit = {
            node.name: self._resampled(graph, sample, values, node, key)
            for node, key in zip(graph.nodes, keys, strict=True)
        }
        return [(sample, credit)], state

    def _resampled(
        self, graph: Graph, sample: Sample, values: Values, node: Node, key: PRNGKeyArray
    ) -> Float[Array, "B ..."]:
        logits = sample.logits[node.name]

        def draw(key: PRNGKeyArray) -> tuple[Array, Float[Array, " B"]]:
            return drawn_anew(graph, sample, node, key)

        def credit(taken: Array, gain: Float[Array, " B"]) -> Float[Array, "B ..."]:
            return reinforced(node.layer, logits, taken, gain)

        drawn, signals = _each(draw, jax.random.split(key, self.samples - 1))
        first = total(graph.downstream(node.name), values, sample)
        gain, gains = _centred(first, signals)
        return credit(sample[node.name], gain) + jnp.sum(_each(credit, drawn, gains), axis=0)

    def _independent(
        self, graph: Graph, sample: Sample, values: Values, key: PRNGKeyArray
    ) -> Assigned:
        context = {name: sample[name] for name in graph.context_names}
        keys = jax.random.split(key, self.samples - 1)
        others = _each(lambda key: graph.sample(key, **context), keys)
        credits = {
            node.name: _independent_credit(graph, sample, values, others, node)
            for node in graph.nodes
        }
        own, theirs = ({name: pair[i] for name, pair in credits.items()} for i in range(2))
        return [(sample, own), _one_batch((others, theirs))]


def _independent_credit(
    graph: Graph, sample: Sample, values: Values, others: PyTree, node: Node
) -> tuple[Float[Array, "B ..."], Float[Array, "others B ..."]]:
    """The node's credit in the sample, and in the others."""

    def signal(each: Sample) -> Float[Array, " B"]:
        return downstream_value(graph, each, node.name)

    def credit(each: Sample, gain: Float[Array, " B"]) -> Float[Array, "B ..."]:
        return reinforced(node.layer, each.logits[node.name], each[node.name], gain)

    first = total(graph.downstream(node.name), values, sample)
    gain, gains = _centred(first, _each(signal, others))
    return credit(sample, gain), _each(credit, others, gains)


def _each(function: Callable[..., PyTree], *further: PyTree) -> PyTree:
    """The function for each of the further samples, side by side: arrays `[K-1, ...]`. A single
    one is not mapped, which might round otherwise."""
    if len(jax.tree.leaves(further)[0]) == 1:
        first = function(*jax.tree.map(lambda array: array[0], further))
        return jax.tree.map(lambda array: array[None], first)
    return jax.vmap(function)(*further)


def _one_batch(further: PyTree) -> PyTree:
    """Arrays `[K-1, B, ...]` as one batch, in which the samples of an example are neighbours."""
    return jax.tree.map(
        lambda array: jnp.swapaxes(array, 0, 1).reshape(-1, *array.shape[2:]), further
    )


def _centred(
    first: Float[Array, " B"], others: Float[Array, "others B"]
) -> tuple[Float[Array, " B"], Float[Array, "others B"]]:
    """Each signal less the mean of the others, as its share of a mean over samples."""
    count, whole = len(others) + 1, first + jnp.sum(others, axis=0)
    share = lambda signal, whole: (signal - (whole - signal) / (count - 1)) / count
    return share(first, whole), share(others, whole[None])
