"""The expectation of every estimate, over all samples, is the exact gradient."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hnca
from enumeration import assert_trees_close, estimates, expectation
from graphs import CASES, Case, bandit

ESTIMATORS = {
    "reinforce": hnca.Reinforce(hnca.MovingAverage()),
    "hnca": hnca.HNCA(hnca.MovingAverage()),
    "no-pruning": hnca.HNCA(hnca.MovingAverage(), prune_children=False),
    "upstream-too": hnca.HNCA(hnca.MovingAverage(), downstream_only=False),
    "full-reward": hnca.HNCA(hnca.MovingAverage(), prune_children=False, downstream_only=False),
}


def frozen(state):
    """Baselines far from zero, a different one everywhere."""
    leaves, structure = jax.tree.flatten(state)
    return jax.tree.unflatten(structure, [jnp.asarray(0.7 + i) for i in range(len(leaves))])


def check_unbiased(case: Case, estimators: Mapping[str, hnca.AbstractEstimator]) -> None:
    value, gradient = hnca.exact_gradient(case.graph, reward=case.world, **case.context)
    for name, estimator in estimators.items():
        zero = estimator.init(case.graph)  # no baseline, see below
        for estimate, probability in estimates(case, estimator, [zero, frozen(zero)]):
            assert_trees_close(expectation(estimate.grads, probability), gradient, name)
            assert_trees_close(expectation(estimate.value, probability), value, name)


@pytest.mark.parametrize("case", CASES)
def test_expectation_of_estimate_is_exact_gradient(case):
    check_unbiased(CASES[case](), ESTIMATORS)


@pytest.mark.parametrize("method", [hnca.Reinforce, hnca.HNCA])
def test_no_baseline_is_a_baseline_of_zero(method):
    case, none, zero = bandit(2), method(), method(hnca.MovingAverage())
    sample = case.graph.sample(jax.random.key(0), **case.context)
    reward = case.world(sample)
    without, _ = none(case.graph, sample, none.init(case.graph), reward=reward)
    with_zero, _ = zero(case.graph, sample, zero.init(case.graph), reward=reward)
    for name, credit in without.credit.items():
        np.testing.assert_array_equal(credit, with_zero.credit[name])
