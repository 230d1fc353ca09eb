"""Saturated units: finite and right in float32, where probabilities are 0 and 1 to rounding."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hnca
from graphs import CASES, bandit, elbo, keys


def extreme(graph: hnca.Graph, weight: float, bias: float) -> hnca.Graph:
    """Whole-numbered weights and biases up to these sizes, so that logits are exact."""
    rng = np.random.default_rng(0)

    def scale(leaf):
        size = weight if leaf.ndim == 2 else bias
        steps = rng.integers(-3, 4, leaf.shape)
        return jnp.asarray(np.round(steps / 3 * size), leaf.dtype)

    return jax.tree.map(scale, graph)


def credit_of(case, graph, dtype):
    context = {k: jnp.concatenate([v] * 10).astype(dtype) for k, v in case.context.items()}
    graph = jax.tree.map(lambda leaf: leaf.astype(dtype), graph)
    sample = graph.sample(jax.random.key(5), **context)
    values = {name: np.asarray(array, np.float64) for name, array in sample.values.items()}
    estimator = hnca.HNCA(hnca.MovingAverage())
    world = case.world(sample)
    estimate, _ = estimator(graph, sample, estimator.init(graph), reward=world)
    return values, world, estimate


SIZES = [(3, 3), (1e3, 10), (3, 1e4), (1e3, 1e4)]  # of weights and biases


@pytest.mark.parametrize("case", ["bandit-1", "elbo-2", "categorical-hidden", "mixed-codings"])
def test_float32_credit_is_that_of_float64(case):
    case, estimator = CASES[case](), hnca.HNCA(hnca.MovingAverage())
    for weight, bias in SIZES:
        graph = extreme(case.graph, weight, bias)
        with jax.enable_x64(False):
            values, world, single = credit_of(case, graph, jnp.float32)
            single = jax.tree.map(np.asarray, single.credit)
        sample = graph.observe(**values)
        world = world and {name: np.asarray(reward, np.float64) for name, reward in world.items()}
        double, _ = estimator(graph, sample, estimator.init(graph), reward=world)
        for name, credit in double.credit.items():
            scale = np.max(np.abs(credit), initial=1)
            assert single[name].dtype == np.float32
            assert np.all(np.isfinite(single[name]))
            np.testing.assert_allclose(single[name], credit, rtol=2e-4, atol=2e-5 * scale)


def test_hindsight_overrules_a_saturated_unit():
    """log pi(v) and the children's evidence may both be huge: only their sum counts.

    One unit with log-odds -5e3 feeds one with log-odds 2e4 h - 1e4, whose value is therefore
    evidence of 1e4 for it or against it.
    """
    k = keys()
    graph = hnca.Graph(
        [
            hnca.Node("h", hnca.Bernoulli(1, 1, key=next(k)), ["x"]),
            hnca.Node("out", hnca.Bernoulli(1, 1, key=next(k)), ["h"]),
        ],
        [hnca.Reward("reward", ["out"])],
    )
    leaves, structure = jax.tree.flatten(graph)
    shapes = [leaf.shape for leaf in leaves]
    numbers = {(1, 1): [-5e3, 2e4], (1,): [0, -1e4]}
    filled = [jnp.full(shape, numbers[shape].pop(0)) for shape in shapes]
    graph = jax.tree.unflatten(structure, filled)
    observed = graph.observe(x=jnp.ones((2, 1)), h=jnp.zeros((2, 1)), out=jnp.array([[0.0], [1.0]]))
    estimator = hnca.HNCA()
    estimate, _ = estimator(graph, observed, estimator.init(graph), reward=jnp.ones(2))
    # Posterior log-odds of h: -5e3 - 1e4 given out = 0, and -5e3 + 1e4 given out = 1.
    np.testing.assert_allclose(estimate.credit["h"][:, 0], [0, 1], atol=1e-300)


def test_elbo_terms_stay_finite():
    case = elbo(2)
    graph = extreme(case.graph, 1e3, 1e4)
    sample = graph.sample(jax.random.key(0), **case.context)
    for name, value in graph.component_values(sample).items():
        assert np.all(np.isfinite(value)), name


def test_reinforce_too():
    case = bandit(2)
    graph = extreme(case.graph, 1e3, 1e4)
    sample = graph.sample(jax.random.key(0), **case.context)
    estimator = hnca.Reinforce()
    estimate, _ = estimator(graph, sample, estimator.init(graph), reward=jnp.ones(2))
    assert all(np.all(np.isfinite(credit)) for credit in estimate.credit.values())
