"""An epoch is one program, and equals its steps one by one."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import hnca
from enumeration import assert_trees_close
from graphs import CASES, bandit, elbo
from hnca.lab.training import TrainState, make_epoch
from hnca.models import bandit_policy, hierarchical_vae

KEY = jax.random.key(0)
OPTIMIZER = hnca.maximize(optax.adam(1e-2))


def task_of(case):
    repeat = lambda array: jnp.concatenate([array] * 4)
    context = {name: repeat(array) for name, array in case.context.items()}
    world = case.world if case.graph.objective[0].opaque else None
    return lambda _: (context, world)


@pytest.mark.parametrize("case", ["elbo-2", "network-logits"])
def test_an_epoch_is_its_steps(case):
    """With a leaf that is no array, too: the activation of an MLP."""
    case, estimator = CASES[case](), hnca.HNCA(hnca.MovingAverage())
    epoch = make_epoch(estimator, OPTIMIZER, task_of(case))
    start = lambda: TrainState.start(case.graph, estimator, OPTIMIZER, jax.random.key(1))
    together, metrics = epoch(start(), jnp.arange(4))
    state, values = start(), []
    for number in range(4):
        state, single = epoch(state, jnp.arange(number, number + 1))
        values.append(single["value"])
    parameters = lambda state: eqx.filter(state.graph, eqx.is_array)
    assert_trees_close(parameters(together), parameters(state), rtol=1e-9)
    assert_trees_close(together.estimator_state, state.estimator_state, rtol=1e-9)
    np.testing.assert_allclose(metrics["value"], jnp.concatenate(values), rtol=1e-12)
    assert int(together.step) == 4
    counts = hnca.parameter_counts(case.graph)
    firing = {f"firing/{name}" for name in ("h1", "h2")}  # a choice of an action does not fire
    assert set(metrics) == {"value", *(f"variance/{name}" for name in counts), *firing}


def test_state_is_donated_and_compiled_once():
    case, estimator, traces = elbo(1), hnca.HNCA(), []

    def task(_):
        traces.append(None)
        return task_of(case)(None)

    epoch = make_epoch(estimator, OPTIMIZER, task, with_variance=False)
    state = TrainState.start(case.graph, estimator, OPTIMIZER, KEY)
    for _ in range(3):
        before = jax.tree.leaves(state.graph)
        state, metrics = epoch(state, jnp.arange(2))
        assert all(leaf.is_deleted() for leaf in before if leaf.size)
    assert len(traces) == 1
    assert not any(leaf.is_deleted() for leaf in jax.tree.leaves(case.graph))
    assert set(metrics) == {"value"}


def test_weights_by_progress_are_for_training_alone():
    """The gradient has them, of how far it is in epochs; the metrics are of the objective."""
    case, seen = elbo(1), []
    (context, _), still = task_of(case)(None), hnca.maximize(optax.sgd(1.0))

    def weights(progress):
        return {"H:h1": 3 * progress, "p:h1": 0 * progress}

    def credited(task):
        estimator = hnca.HNCA()
        epoch = make_epoch(estimator, still, task, with_variance=False)
        state = TrainState.start(case.graph, estimator, still, KEY)
        state = eqx.tree_at(lambda state: state.step, state, jnp.asarray(2))
        after, metrics = epoch(state, jnp.arange(1))
        seen.append(float(metrics["value"][0]))
        return eqx.filter(after.graph, eqx.is_array)

    by_progress = credited(lambda _: (context, None, weights))
    fixed = credited(lambda _: (context, None, {"H:h1": jnp.asarray(6.0), "p:h1": 0.0}))
    assert_trees_close(by_progress, fixed, rtol=1e-12)
    sample = case.graph.sample(jax.random.split(KEY, 3)[1], **context)
    np.testing.assert_allclose(seen[0], case.graph.value(sample).mean(), rtol=1e-12)
    assert abs(seen[1] - seen[0]) > 0.1


def test_a_policy_learns():
    case, estimator = bandit(1), hnca.HNCA(hnca.MovingAverage())
    graph = bandit_policy(3, [8], 3, key=KEY)
    x = case.context["x"]
    best = jnp.array([0, 2])
    task = lambda _: ({"x": jnp.repeat(x, 8, 0)}, lambda s: s["action"] == jnp.repeat(best, 8, 0))
    epoch = make_epoch(estimator, OPTIMIZER, task)
    state = TrainState.start(graph, estimator, OPTIMIZER, KEY)
    state, metrics = epoch(state, jnp.arange(300))
    assert metrics["value"][-20:].mean() > 0.9 > 0.6 > metrics["value"][:20].mean()


def test_models_are_the_graphs_of_the_readme():
    vae = hierarchical_vae(5, [4, 3], key=KEY)
    assert vae.node_names == ("h1", "h2")
    assert [part.name for part in vae.objective] == ["p:x", "H:h1", "p:h1", "H:h2", "p:h2"]
    assert hnca.parameter_counts(vae) == {
        "h1": 4 * 6,
        "h2": 3 * 5,
        "p:x": 5 * 5,
        "p:h1": 4 * 4,
        "p:h2": 3,
    }
    with pytest.raises(ValueError, match="at least one layer"):
        hierarchical_vae(5, [], key=KEY)


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="for CPUs")
def test_a_reward_is_computed_once_for_all_that_read_it():
    """XLA for CPUs would put it into each fusion that reads it, and there compute it for each unit
    of each example."""
    case, estimator = bandit(2), hnca.HNCA(hnca.MovingAverage())
    state = estimator.init(case.graph)

    @jax.jit
    def step(key):
        sample = case.graph.sample(key, **case.context)
        estimate, _ = estimator(case.graph, sample, state, reward=jnp.cos(1.0 * sample["action"]))
        return estimate.grads

    assert step.lower(KEY).compile().as_text().count(" cosine(") == 1
