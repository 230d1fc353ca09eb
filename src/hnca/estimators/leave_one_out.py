"""REINFORCE with the other samples of the same example as its baseline."""

from collections.abc import Sequence
from typing import ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from ..credit import Credit
from ..graph import Graph, Node, Sample
from .base import (
    AbstractEstimator,
    Assigned,
    Values,
    downstream_value,
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

    def init(self, graph: Graph) -> PyTree:
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
        signals = [total(graph.downstream(node.name), values, sample)]
        drawn = [sample[node.name]]
        for each in jax.random.split(key, self.samples - 1):
            own, below = jax.random.split(each)
            drawn.append(node.layer.sample(logits, own))
            again = graph.resample(below, sample, node.name, drawn[-1])
            signals.append(downstream_value(graph, again, node.name))
        pairs = zip(drawn, _centred(signals), strict=True)
        credits = [reinforced(node.layer, logits, taken, gain) for taken, gain in pairs]
        return sum(credits, jnp.zeros_like(logits))

    def _independent(
        self, graph: Graph, sample: Sample, values: Values, key: PRNGKeyArray
    ) -> Assigned:
        context = {name: sample[name] for name in graph.context_names}
        others = [graph.sample(each, **context) for each in jax.random.split(key, self.samples - 1)]
        passes = [sample, *others]
        credits: list[Credit] = [{} for _ in passes]
        for node in graph.nodes:
            first = total(graph.downstream(node.name), values, sample)
            signals = [first, *(downstream_value(graph, each, node.name) for each in others)]
            for each, gain, credit in zip(passes, _centred(signals), credits, strict=True):
                logits, taken = each.logits[node.name], each[node.name]
                credit[node.name] = reinforced(node.layer, logits, taken, gain)
        return list(zip(passes, credits, strict=True))


def _centred(signals: Sequence[Float[Array, " B"]]) -> list[Float[Array, " B"]]:
    """Each signal less the mean of the others, as its share of a mean over samples."""
    count, whole = len(signals), sum(signals, jnp.zeros_like(signals[0]))
    return [(signal - (whole - signal) / (count - 1)) / count for signal in signals]
