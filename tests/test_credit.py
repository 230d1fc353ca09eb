"""Gradients, their variance, baselines and the way uphill."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import hnca
from enumeration import of_single_samples
from graphs import CASES, bandit, elbo

KEY = jax.random.key(4)


def drawn(case, batch=6):
    context = {k: jnp.concatenate([v] * (batch // len(v))) for k, v in case.context.items()}
    return case.graph.sample(KEY, **context)


@pytest.mark.parametrize("case", ["elbo-2", "network-logits", "linear-and-function"])
def test_gradient_variance_is_that_of_per_example_gradients(case):
    case = CASES[case]()
    sample = drawn(case)
    rewards = case.world(sample)
    estimator = hnca.HNCA()
    state = estimator.init(case.graph)
    estimate, _ = estimator(case.graph, sample, state, reward=rewards)
    one = lambda sample, rewards: estimator(case.graph, sample, state, reward=rewards)[0].grads
    grads = of_single_samples(one, sample, rewards)
    parts = {part.name: part for part in (*grads.nodes, *grads.objective)}
    expected = {name: part for name, part in parts.items() if jax.tree.leaves(part)}
    variances = hnca.gradient_variance(case.graph, sample, estimate)
    assert set(variances) == set(expected)
    for name, gradient in expected.items():
        flat = np.concatenate([leaf.reshape(6, -1) for leaf in jax.tree.leaves(gradient)], axis=1)
        np.testing.assert_allclose(variances[name], flat.var(axis=0).mean(), rtol=1e-9)
        assert hnca.parameter_counts(case.graph)[name] == flat.shape[1]


def test_gradient_variance_with_weights():
    """Components with parameters of their own included."""
    case, estimator = CASES["linear-and-function"](), hnca.HNCA()
    sample, state = drawn(case), estimator.init(case.graph)
    numbers = jnp.linspace(-1, 2, 6)
    wrap = lambda numbers: {"tanh": numbers, "quadratic": 0.5}
    run = lambda sample, numbers: estimator(case.graph, sample, state, weights=wrap(numbers))[0]
    estimate = run(sample, numbers)
    grads = of_single_samples(lambda *each: run(*each).grads, sample, numbers)
    assert jax.tree.structure(estimate.grads) == jax.tree.structure(case.graph)
    variances = hnca.gradient_variance(case.graph, sample, estimate)
    for part in (*grads.nodes, *grads.objective[:3]):
        flat = np.concatenate([leaf.reshape(6, -1) for leaf in jax.tree.leaves(part)], axis=1)
        np.testing.assert_allclose(variances[part.name], flat.var(axis=0).mean(), rtol=1e-9)


def test_grads_are_a_batch_mean():
    case = elbo(2)
    sample, estimator = drawn(case), hnca.HNCA()
    state = estimator.init(case.graph)
    together = estimator(case.graph, sample, state)[0].grads
    one = lambda sample, _: estimator(case.graph, sample, state)[0].grads
    apart = of_single_samples(one, sample, None)
    for mean, each in zip(jax.tree.leaves(together), jax.tree.leaves(apart), strict=True):
        np.testing.assert_allclose(mean, each.mean(axis=0), rtol=1e-12, atol=1e-14)


def test_credit_has_the_shape_of_logits():
    case = CASES["categorical-hidden"]()
    sample, estimator = drawn(case), hnca.HNCA()
    estimate, _ = estimator(
        case.graph, sample, estimator.init(case.graph), reward=case.world(sample)
    )
    shapes = {name: credit.shape for name, credit in estimate.credit.items()}
    assert shapes == {
        "c": (6, 2, 3),
        "d": (6, 1, 3),
        "h": (6, 2),
        "p:c": (6, 2, 3),
        "p:x": (6, 2),
    }
    assert estimate.value.shape == (6,)
    assert jax.tree.structure(estimate.grads) == jax.tree.structure(case.graph)


@pytest.mark.parametrize("method", [hnca.Reinforce, hnca.HNCA])
def test_moving_average_starts_at_zero_and_moves_after_use(method):
    case, estimator = bandit(2), method(hnca.MovingAverage(0.9))
    sample = drawn(case)
    reward = jnp.arange(6.0)
    state = estimator.init(case.graph)
    first, state = estimator(case.graph, sample, state, reward=reward)
    second, state = estimator(case.graph, sample, state, reward=reward)
    average = 0.1 * 2.5
    without = method()
    centred, _ = without(case.graph, sample, without.init(case.graph), reward=reward - average)
    plain, _ = without(case.graph, sample, without.init(case.graph), reward=reward)
    for name in ("h1", "h2", "action"):
        np.testing.assert_allclose(first.credit[name], plain.credit[name], rtol=1e-12)
        np.testing.assert_allclose(second.credit[name], centred.credit[name], rtol=1e-11)
    for leaf in jax.tree.leaves(state):
        np.testing.assert_allclose(leaf, 0.9 * average + 0.1 * 2.5, rtol=1e-12)
    assert len(jax.tree.leaves(state)) == 3


@pytest.mark.parametrize("bad", [jnp.nan, jnp.inf])
def test_moving_average_passes_over_what_is_not_finite(bad):
    average = hnca.MovingAverage(0.9)
    state = average.update(average.init(), jnp.array([1.0, 3.0]))
    after = average.update(state, jnp.array([1.0, bad]))
    np.testing.assert_array_equal(after, state)
    np.testing.assert_allclose(average.update(after, jnp.array([4.0])), 0.9 * 0.2 + 0.4)


def test_routes_have_baselines_of_their_own_whatever_the_names():
    """Through `a` and `b` is not through `a, b`."""
    layer = lambda inputs: hnca.Bernoulli(inputs, 1, key=jax.random.key(inputs))
    children = ["a", "b", "a, b", '["a", "b"]']
    nodes = [hnca.Node("h", layer(2), ["x"]), *(hnca.Node(c, layer(1), ["h"]) for c in children)]
    rewards = {"both": ["a", "b"], "comma": ["a, b"], "quotes": ['["a", "b"]']}
    graph = hnca.Graph(nodes, [hnca.Reward(name, parents) for name, parents in rewards.items()])
    estimator = hnca.HNCA(hnca.MovingAverage(0.0))
    sample = graph.sample(KEY, x=jnp.ones((4, 2)))
    answers = {name: jnp.full(4, number) for number, name in enumerate(rewards, 1)}
    _, state = estimator(graph, sample, estimator.init(graph), reward=answers)
    assert sorted(state["h"].values()) == [1, 2, 3]
    assert state["h"]["through a, b"] == 1


def test_baseline_of_the_vae_tracks_mediated_components_only():
    """The sum of what comes through children (pink and orange in the paper's figure)."""
    case, estimator = elbo(2), hnca.HNCA(hnca.MovingAverage(0.0))
    sample = drawn(case)
    _, state = estimator(case.graph, sample, estimator.init(case.graph))
    values = case.graph.component_values(sample)
    mediated = jnp.mean(values["p:h1"] + values["p:h2"])
    np.testing.assert_allclose(state["h1"]["through h2"], mediated, rtol=1e-12)
    assert state["h2"] == {}
    unpruned = hnca.HNCA(hnca.MovingAverage(0.0), prune_children=False)
    _, state = unpruned(case.graph, sample, unpruned.init(case.graph))
    downstream = mediated + jnp.mean(values["p:x"] + values["H:h2"])
    np.testing.assert_allclose(state["h1"]["through h2"], downstream, rtol=1e-12)
    full = hnca.HNCA(hnca.MovingAverage(0.0), prune_children=False, downstream_only=False)
    _, state = full(case.graph, sample, full.init(case.graph))
    np.testing.assert_allclose(
        state["h1"]["through h2"], jnp.mean(case.graph.value(sample)), rtol=1e-12
    )


@pytest.mark.parametrize("optimizer", [optax.sgd(0.1), optax.adam(0.1), optax.adamw(0.1)])
def test_maximize_walks_uphill(optimizer):
    """Exact ascent on a graph with a non-array leaf (an MLP's activation)."""
    case = CASES["network-logits"]()
    graph, uphill = case.graph, hnca.maximize(optimizer)
    opt_state = uphill.init(graph)
    before, gradient = hnca.exact_gradient(graph, reward=case.world, **case.context)
    updates, _ = uphill.update(gradient, opt_state, graph)
    after, _ = hnca.exact_gradient(
        eqx.apply_updates(graph, updates), reward=case.world, **case.context
    )
    assert after > before


def test_maximize_leaves_weight_decay_alone():
    weights = jnp.ones(3)
    uphill = hnca.maximize(optax.adamw(0.1, weight_decay=0.5))
    updates, _ = uphill.update(jnp.zeros(3), uphill.init(weights), weights)
    np.testing.assert_allclose(updates, -0.05 * weights)
