"""Everything is a pytree: it jits, vmaps, serialises, and traces once per shape."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import hnca
from enumeration import assert_trees_close
from graphs import CASES, bandit, elbo

KEY = jax.random.key(0)
ESTIMATORS = [hnca.Reinforce(hnca.MovingAverage()), hnca.HNCA(hnca.MovingAverage())]


def run(graph, estimator, state, key, context, world):
    sample = graph.sample(key, **context)
    estimate, state = estimator(graph, sample, state, reward=world(sample))
    return estimate, state, hnca.gradient_variance(graph, sample, estimate)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("case", ["bandit-2", "elbo-2", "network-logits", "linear-and-function"])
def test_jit_changes_nothing(case, estimator):
    case = CASES[case]()
    arguments = (case.graph, estimator, estimator.init(case.graph), KEY, case.context, case.world)
    assert_trees_close(
        eqx.filter(eqx.filter_jit(run)(*arguments), eqx.is_array),
        eqx.filter(run(*arguments), eqx.is_array),
        rtol=1e-10,
    )


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_vmap_over_models_and_keys(estimator):
    """An ensemble of models side by side equals the models one by one."""
    case = elbo(2)
    models = [jax.tree.map(lambda leaf, s=scale: s * leaf, case.graph) for scale in (0.5, 1, 2)]
    keys = jax.random.split(KEY, 3)
    alone = [
        run(model, estimator, estimator.init(model), key, case.context, case.world)
        for model, key in zip(models, keys, strict=True)
    ]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *models)
    states = eqx.filter_vmap(estimator.init)(stacked)
    together = eqx.filter_vmap(
        lambda model, state, key: run(model, estimator, state, key, case.context, case.world)
    )(stacked, states, keys)
    assert_trees_close(
        together, jax.tree.map(lambda *leaves: jnp.stack(leaves), *alone), rtol=1e-10
    )


def test_one_trace_per_shape():
    case, traces = bandit(2), []
    optimizer, estimator = hnca.maximize(optax.adam(1e-2)), ESTIMATORS[1]

    @eqx.filter_jit
    def step(graph, opt_state, state, key, x):
        traces.append(x.shape)
        sample = graph.sample(key, x=x)
        estimate, state = estimator(graph, sample, state, reward=jnp.ones(len(x)))
        updates, opt_state = optimizer.update(estimate.grads, opt_state)
        return eqx.apply_updates(graph, updates), opt_state, state

    graph, state = case.graph, estimator.init(case.graph)
    opt_state = optimizer.init(graph)
    for key in jax.random.split(KEY, 5):
        graph, opt_state, state = step(graph, opt_state, state, key, jnp.ones((4, 3)))
    assert traces == [(4, 3)]
    step(graph, opt_state, state, KEY, jnp.ones((2, 3)))
    assert traces == [(4, 3), (2, 3)]


def test_one_trace_for_all_numbers_as_weights():
    """Those of a warm-up change in every step."""
    traces = []

    def energy(h):
        traces.append(h.shape)
        return h.sum(-1)

    layer = hnca.Bernoulli(3, 2, key=KEY)
    graph = hnca.Graph([hnca.Node("h", layer, ["x"])], [hnca.Function("f", energy, ["h"])])
    sample, estimator = graph.sample(KEY, x=jnp.ones((4, 3))), hnca.HNCA()
    state, counts = estimator.init(graph), []
    for weight in (0.1, 0.2, 0.3):
        estimate, _ = estimator(graph, sample, state, weights={"f": weight})
        np.testing.assert_allclose(estimate.value, weight * sample["h"].sum(1), rtol=1e-6)
        counts.append(len(traces))
    assert counts[0] == counts[2]


def test_training_inside_scan():
    """The whole epoch as one program, state and all."""
    case, estimator = elbo(1), hnca.HNCA(hnca.MovingAverage())
    optimizer = hnca.maximize(optax.adam(3e-2))

    def step(carry, key):
        graph, opt_state, state = carry
        sample = graph.sample(key, x=jnp.concatenate([case.context["x"]] * 8))
        estimate, state = estimator(graph, sample, state)
        updates, opt_state = optimizer.update(estimate.grads, opt_state)
        return (eqx.apply_updates(graph, updates), opt_state, state), estimate.value.mean()

    start = case.graph, optimizer.init(case.graph), estimator.init(case.graph)
    (trained, _, _), _ = jax.lax.scan(step, start, jax.random.split(KEY, 300))
    before, _ = hnca.exact_gradient(case.graph, **case.context)
    after, _ = hnca.exact_gradient(trained, **case.context)
    assert before < -3
    assert after > -1.2  # the best is log(1/2) = -0.69: two images, equally likely


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_no_gradient_passes_through_an_estimate(estimator):
    """Credit is a number, not a function: nobody differentiates through it by accident."""
    case = elbo(2)
    sample = case.graph.sample(KEY, **case.context)
    state = estimator.init(case.graph)

    def total_credit(graph):
        estimate, state_after = estimator(graph, sample, state)
        return sum(jnp.sum(leaf) for leaf in jax.tree.leaves((estimate.credit, state_after)))

    gradient = eqx.filter_grad(total_credit)(case.graph)
    assert all(np.all(leaf == 0) for leaf in jax.tree.leaves(gradient))


def test_no_gradient_passes_through_a_sampled_value():
    case = elbo(2)
    total = lambda graph: sum(
        jnp.sum(graph.sample(KEY, **case.context)[name]) for name in graph.node_names
    )
    gradient = eqx.filter_grad(total)(case.graph)
    assert all(np.all(leaf == 0) for leaf in jax.tree.leaves(gradient))


def test_leaves_are_the_parameters_and_serialise(tmp_path):
    case = CASES["categorical-hidden"]()
    assert all(eqx.is_inexact_array(leaf) for leaf in jax.tree.leaves(case.graph))
    eqx.tree_serialise_leaves(tmp_path / "graph.eqx", case.graph)
    blank = jax.tree.map(jnp.zeros_like, case.graph)
    loaded = eqx.tree_deserialise_leaves(tmp_path / "graph.eqx", blank)
    assert_trees_close(loaded, case.graph, rtol=0)
