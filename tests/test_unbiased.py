"""The expectation of every estimate, over all samples, is the exact gradient."""

import jax
import jax.numpy as jnp
import pytest

import hnca
from enumeration import assert_trees_close, estimates, expectation
from graphs import CASES, Case

ESTIMATORS = {
    "reinforce": hnca.Reinforce(),
    "reinforce+baseline": hnca.Reinforce(hnca.MovingAverage()),
    "hnca": hnca.HNCA(),
    "hnca+baseline": hnca.HNCA(hnca.MovingAverage()),
    "no-pruning": hnca.HNCA(hnca.MovingAverage(), prune_children=False),
    "upstream-too": hnca.HNCA(hnca.MovingAverage(), downstream_only=False),
    "full-reward": hnca.HNCA(prune_children=False, downstream_only=False),
}


def frozen(state):
    """Baselines far from zero, a different one everywhere."""
    leaves, structure = jax.tree.flatten(state)
    return jax.tree.unflatten(structure, [jnp.asarray(0.7 + i) for i in range(len(leaves))])


def check_unbiased(case: Case) -> None:
    value, gradient = hnca.exact_gradient(case.graph, reward=case.world, **case.context)
    for name, estimator in ESTIMATORS.items():
        estimate, probability = estimates(case, estimator, frozen(estimator.init(case.graph)))
        assert_trees_close(expectation(estimate.grads, probability), gradient, name)
        assert_trees_close(expectation(estimate.value, probability)[0], value, name)


@pytest.mark.parametrize("case", CASES)
def test_expectation_of_estimate_is_exact_gradient(case):
    check_unbiased(CASES[case]())
