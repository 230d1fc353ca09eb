"""The expectation of every estimate, over all samples, is the exact gradient."""

from collections.abc import Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hnca
from enumeration import (
    assert_trees_close,
    estimates,
    every_sample,
    expectation,
    of_single_samples,
)
from graphs import CASES, Case, bandit
from hnca.baselines import Fit
from hnca.counterfactual import Counterfactuals
from hnca.credit import added, direct_credit, gradients

ESTIMATORS = {
    "reinforce": hnca.Reinforce(hnca.MovingAverage()),
    "hnca": hnca.HNCA(hnca.MovingAverage()),
    "no-pruning": hnca.HNCA(hnca.MovingAverage(), prune_children=False),
    "upstream-too": hnca.HNCA(hnca.MovingAverage(), downstream_only=False),
    "full-reward": hnca.HNCA(hnca.MovingAverage(), prune_children=False, downstream_only=False),
}


LEARNED = {
    "reinforce+learned": hnca.Reinforce(hnca.Learned(3)),
    "hnca+learned": hnca.HNCA(hnca.Learned(3)),
    "full-reward+learned": hnca.HNCA(hnca.Learned(3), prune_children=False, downstream_only=False),
}
WITH_LEARNED = ["skip-connection", "two-heads", "categorical-hidden", "opaque-everywhere"]


def frozen(state):
    """Baselines far from zero, a different one everywhere: of a network, another weight for each
    input, and averages after five batches."""
    leaves, structure = jax.tree.flatten(state)

    def far(number, leaf):
        if jnp.issubdtype(leaf.dtype, jnp.integer):
            return jnp.full_like(leaf, 5)
        noise = jax.random.normal(jax.random.key(number), leaf.shape) if leaf.ndim else 0.0
        return 0.7 + number * (leaf.ndim == 0) + noise + jnp.zeros(leaf.shape)

    state = jax.tree.unflatten(structure, [far(i, leaf) for i, leaf in enumerate(leaves)])
    is_fit, one = lambda part: isinstance(part, Fit), jnp.asarray(1 - 0.99**5)
    counted = lambda part: eqx.tree_at(lambda fit: fit.one, part, one) if is_fit(part) else part
    return jax.tree.map(counted, state, is_leaf=is_fit)


class SharedTables(Counterfactuals):
    """Tables for several estimators: those of the objective are traced once, too."""

    def __init__(self, graph: hnca.Graph, sample: hnca.Sample):
        super().__init__(graph, sample)
        self._known = {}

    def log_prob(self, node, name):
        key = id(node.layer), name
        if key not in self._known:
            self._known[key] = super().log_prob(node, name)
        return self._known[key]


def gradients_of_all(case: Case, estimators: Mapping[str, hnca.AbstractEstimator]):
    """For each estimator and baseline, the gradient estimate from every sample alone. As the
    estimator's own call makes it, but with one set of tables for all: they take long to compile."""
    graph, (sample, rewards, probability) = case.graph, every_sample(case)

    def estimate(sample, rewards):
        values = graph.component_values(sample, rewards)
        tables, direct = SharedTables(graph, sample), direct_credit(graph, sample)

        def of(estimator, state):
            if isinstance(estimator, hnca.HNCA):
                ((_, influence),), _ = estimator.assign_from(tables, values, state)
            else:
                ((_, influence),), _ = estimator.assign(graph, sample, values, state, None)
            return gradients(graph, [(sample, added(influence, direct))])

        key = jax.random.key(0)
        zeros = {
            name: each.init(graph, key=key) for name, each in estimators.items()
        }  # no baseline
        return {
            (name, baseline): of(estimators[name], state)
            for name, zero in zeros.items()
            for baseline, state in (("none", zero), ("frozen", frozen(zero)))
        }

    return of_single_samples(estimate, sample, rewards), probability


def check_unbiased(case: Case, estimators: Mapping[str, hnca.AbstractEstimator]) -> None:
    _, exact = hnca.exact_gradient(case.graph, reward=case.world, **case.context)
    estimated, probability = gradients_of_all(case, estimators)
    assert len(estimated) == 2 * len(estimators)
    for name, gradient in estimated.items():
        assert_trees_close(expectation(gradient, probability), exact, str(name))


@pytest.mark.parametrize("case", CASES)
def test_expectation_of_estimate_is_exact_gradient(case):
    check_unbiased(CASES[case](), ESTIMATORS | (LEARNED if case in WITH_LEARNED else {}))


@pytest.mark.parametrize("estimator", ["reinforce", "hnca", "full-reward"])
@pytest.mark.parametrize("case", ["bandit-2", "linear-and-function"])
def test_by_the_estimators_own_call(case, estimator):
    """The same through the front door, and the value with it."""
    case, estimator = CASES[case](), ESTIMATORS[estimator]
    value, gradient = hnca.exact_gradient(case.graph, reward=case.world, **case.context)
    zero = estimator.init(case.graph)
    for estimate, probability in estimates(case, estimator, [zero, frozen(zero)]):
        assert_trees_close(expectation(estimate.grads, probability), gradient)
        assert_trees_close(expectation(estimate.value, probability), value)


@pytest.mark.parametrize("method", [hnca.Reinforce, hnca.HNCA])
def test_no_baseline_is_a_baseline_of_zero(method):
    case, none, zero = bandit(2), method(), method(hnca.MovingAverage())
    sample = case.graph.sample(jax.random.key(0), **case.context)
    reward = case.world(sample)
    without, _ = none(case.graph, sample, none.init(case.graph), reward=reward)
    with_zero, _ = zero(case.graph, sample, zero.init(case.graph), reward=reward)
    for name, credit in without.credit.items():
        np.testing.assert_array_equal(credit, with_zero.credit[name])


@pytest.mark.parametrize(
    ("case", "form"),
    [
        ("elbo-1", "components"),
        ("linear-and-function", "components"),
        ("opaque-everywhere", "examples"),
    ],
)
def test_weighted_objective(case, form):
    """Unbiased for it by enumeration, value and gradient, with baselines far from zero: one
    component has a scalar, one a number an example, the others none; or the examples have one."""
    case = CASES[case]()
    first, second = (part.name for part in case.graph.objective[:2])
    per_example = jnp.array([0.3, -2.0])
    weights = {first: 0.7, second: per_example} if form == "components" else per_example
    exact = hnca.exact_gradient(case.graph, reward=case.world, weights=weights, **case.context)
    sample, rewards, probability = every_sample(case)
    repeated = jnp.repeat(per_example, sample.batch // 2)
    every = ESTIMATORS | LEARNED
    estimators = {name: every[name] for name in ("reinforce", "hnca", "hnca+learned")}

    def estimate(sample, pair):
        rewards, mine = pair
        weights = {first: 0.7, second: mine} if form == "components" else mine

        def of(estimator):
            state = frozen(estimator.init(case.graph, key=jax.random.key(0)))
            made, _ = estimator(case.graph, sample, state, reward=rewards, weights=weights)
            return made.value, made.grads

        return {name: of(each) for name, each in estimators.items()}

    results = of_single_samples(estimate, sample, (rewards, repeated))
    for name, estimated in results.items():
        assert_trees_close(expectation(estimated, probability), exact, name)
    plain = hnca.exact_gradient(case.graph, reward=case.world, **case.context)
    assert abs(plain[0] - exact[0]) > 0.01
