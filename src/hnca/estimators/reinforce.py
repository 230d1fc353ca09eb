"""REINFORCE: whatever a unit did gets all the credit for what came of it."""

from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from ..baselines import AbstractBaseline, View, as_baseline
from ..credit import Assigned, Credit
from ..graph import Graph, Sample
from .base import AbstractEstimator, Values, reinforced, total


class Reinforce(AbstractEstimator):
    """The local REINFORCE estimator, d log pi(value) / d logits x (f - baseline), where f is the
    sum of the components downstream of the node (Section "HNCA in a Contextual Bandit Setting").

    >>> estimator = hnca.Reinforce(baseline=hnca.MovingAverage(0.99))
    >>> estimate, state = estimator(graph, sample, estimator.init(graph))
    >>> estimate.credit["h1"].shape
    (5, 3)
    """

    baseline: AbstractBaseline

    def __init__(self, baseline: AbstractBaseline | None = None):
        self.baseline = as_baseline(baseline)

    @property
    def unbiased(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.baseline.unbiased

    @property
    def needs_objective(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.baseline.needs_objective

    def init(self, graph: Graph, *, key: PRNGKeyArray | None = None) -> PyTree:
        return {node.name: self.baseline.init(node, key=key) for node in graph.nodes}

    def divisors(self, state: PyTree) -> dict[str, Float[Array, ""]]:
        return self.baseline.divisors({name: [own] for name, own in state.items()})

    def assign(
        self,
        graph: Graph,
        sample: Sample,
        values: Values,
        state: PyTree,
        key: PRNGKeyArray | None,
    ) -> tuple[Assigned, PyTree]:
        credit: Credit = {}
        next_state = {}
        for node in graph.nodes:
            view = View(graph, node, sample, key)
            components, own = graph.downstream(node.name), state[node.name]
            signal = total(components, values, sample)
            gain = signal - self.baseline.value(own, view, components)
            logits, taken = sample.logits[node.name], sample[node.name]
            credit[node.name] = reinforced(node.layer, logits, taken, gain)
            next_state[node.name] = self.baseline.update(own, view, signal)
        return [(sample, credit)], next_state
