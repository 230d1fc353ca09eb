"""Local expectation gradients: what HNCA computes, by brute force."""

from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from ..baselines import AbstractBaseline
from ..counterfactual import Counterfactuals
from ..credit import Assigned
from ..graph import Graph, Sample
from .base import AbstractEstimator, Values
from .hnca import HNCA


class LocalExpectation(AbstractEstimator):
    """Local expectation gradients (Titsias and Lázaro-Gredilla 2015) for any graph: every child and
    every function is evaluated from scratch for each value of each unit. The credit is HNCA's;
    the price is what the paper's message passing saves.

    >>> estimator = hnca.LocalExpectation()
    >>> estimate, _ = estimator(graph, sample, estimator.init(graph))
    >>> estimate.credit["h1"].shape
    (5, 3)
    """

    method: HNCA

    def __init__(self, baseline: AbstractBaseline | None = None):
        self.method = HNCA(baseline)

    @property
    def unbiased(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.method.unbiased

    @property
    def needs_objective(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.method.needs_objective

    def divisors(self, state: PyTree) -> dict[str, Float[Array, ""]]:
        return self.method.divisors(state)

    def init(self, graph: Graph, *, key: PRNGKeyArray | None = None) -> PyTree:
        return self.method.init(graph, key=key)

    def assign(
        self,
        graph: Graph,
        sample: Sample,
        values: Values,
        state: PyTree,
        key: PRNGKeyArray | None,
    ) -> tuple[Assigned, PyTree]:
        tables = Counterfactuals(graph, sample, brute_force=True)
        return self.method.assign_from(tables, values, state, key)
