"""REINFORCE: whatever a unit did gets all the credit for what came of it."""

from typing import ClassVar

from jaxtyping import PRNGKeyArray, PyTree

from ..baselines import AbstractBaseline, NoBaseline
from ..credit import Credit
from ..graph import Graph, Sample
from .base import AbstractEstimator, Assigned, Values, reinforced, total


class Reinforce(AbstractEstimator):
    """The local REINFORCE estimator, d log pi(value) / d logits x (f - baseline), where f is the
    sum of the components downstream of the node (Section "HNCA in a Contextual Bandit Setting").

    >>> estimator = hnca.Reinforce(baseline=hnca.MovingAverage(0.99))
    >>> estimate, state = estimator(graph, sample, estimator.init(graph))
    >>> estimate.credit["h1"].shape
    (5, 3)
    """

    baseline: AbstractBaseline
    unbiased: ClassVar[bool] = True
    needs_objective: ClassVar[bool] = False

    def __init__(self, baseline: AbstractBaseline | None = None):
        self.baseline = baseline or NoBaseline()

    def init(self, graph: Graph, *, key: PRNGKeyArray | None = None) -> PyTree:
        return {name: self.baseline.init() for name in graph.node_names}

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
            signal = total(graph.downstream(node.name), values, sample)
            gain = signal - self.baseline.value(state[node.name])
            logits, taken = sample.logits[node.name], sample[node.name]
            credit[node.name] = reinforced(node.layer, logits, taken, gain)
            next_state[node.name] = self.baseline.update(state[node.name], signal)
        return [(sample, credit)], next_state
