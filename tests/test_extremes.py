"""Numbers at the edge: saturated units in float32, draws in low precision, NaN."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hnca
from graphs import CASES, bandit, elbo, keys
from hnca.counterfactual import Counterfactuals


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


DRAWS = 200_000
PRECISIONS = pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16, jnp.float32])


def assert_frequencies(counts, probabilities):
    """z-scores of every count."""
    error = np.sqrt(probabilities * (1 - probabilities) * DRAWS)
    assert np.all(np.abs(counts - probabilities * DRAWS) < 4 * error), counts / DRAWS


@PRECISIONS
def test_bernoulli_draws_have_their_probabilities(dtype):
    logits = np.array([-8, -6, -3, -0.5, 0, 2, 4, 6])
    layer = hnca.Bernoulli(0, len(logits), values=(-1, 1), key=jax.random.key(0))
    values = layer.sample(jnp.tile(jnp.asarray(logits, dtype), (DRAWS, 1)), jax.random.key(1))
    assert values.dtype == dtype
    assert_frequencies(np.sum(np.asarray(values) == 1, axis=0), 1 / (1 + np.exp(-logits)))


@PRECISIONS
def test_categorical_draws_have_their_probabilities(dtype):
    logits = np.array([[0, -3, -6, -1, 1], [6, 0, -2, 1, 2]])
    layer = hnca.Categorical(0, 5, units=2, key=jax.random.key(0))
    values = layer.sample(jnp.tile(jnp.asarray(logits, dtype), (DRAWS, 1, 1)), jax.random.key(1))
    for column, unit in zip(np.asarray(values).T, logits, strict=True):
        assert_frequencies(np.bincount(column, minlength=5), np.exp(unit) / np.exp(unit).sum())


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
@pytest.mark.parametrize("method", [hnca.ARM, hnca.DisARM])
def test_antithetic_draws_are_unbiased(dtype, method):
    """The mean credit of units of any log-odds, for an objective that is their sum."""
    logits = np.array([-8, -6, -3, 0, 0.5, 2, 4])
    layer = hnca.Bernoulli(1, len(logits), key=jax.random.key(0))
    graph = hnca.Graph(
        [hnca.Node("h", layer, ["x"])], [hnca.Function("f", lambda h: h.sum(-1), ["h"])]
    )
    graph = eqx.tree_at(lambda graph: graph["h"].layer.logits.bias, graph, jnp.asarray(logits))
    graph = jax.tree.map(lambda leaf: leaf.astype(dtype), graph)
    sample = graph.sample(jax.random.key(1), x=jnp.zeros((DRAWS, 1), dtype))
    assert sample.logits["h"].dtype == dtype
    credit = np.asarray(method()(graph, sample, {}, key=jax.random.key(2))[0].credit["h"])
    truth = 1 / (2 + np.exp(logits) + np.exp(-logits))
    assert np.all(np.abs(credit.mean(0) - truth) < 4 * credit.std(0) / DRAWS**0.5)


def test_nan_is_never_a_posterior():
    """One NaN among a layer's biases: in hindsight, nothing is known of its parents' units."""
    k = keys()
    graph = hnca.Graph(
        [
            hnca.Node("a", hnca.Bernoulli(2, 3, key=next(k)), ["x"]),
            hnca.Node("b", hnca.Categorical(2, 3, units=2, key=next(k)), ["x"]),
            hnca.Node("c", hnca.Bernoulli(9, 20, key=next(k)), ["a", "b"]),
        ]
    )
    bias = lambda graph: graph["c"].layer.logits.bias
    broken = eqx.tree_at(bias, graph, bias(graph).at[1].set(jnp.nan))
    sample = broken.sample(jax.random.key(0), x=jnp.ones((3, 2)))

    @eqx.filter_jit
    def posterior(name, brute_force):
        evidence = Counterfactuals(broken, sample, brute_force).message("c", name)
        return broken[name].layer.posterior(sample.logits[name], evidence)

    for name in ("a", "b"):
        assert np.isnan(posterior(name, brute_force=True)).all()
        assert np.isnan(posterior(name, brute_force=False)).all()
