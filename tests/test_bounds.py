"""Bounds from several samples, against enumeration of the likelihood itself."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import logsumexp

import hnca
from enumeration import every_sample
from graphs import bandit, elbo
from hnca.bounds import log_weights, multi_sample_bound

CASE = elbo(2)
GRAPH, X = CASE.graph, CASE.context["x"]


@pytest.fixture(scope="module")
def enumerated():
    """log w and q of every h, and log p(x): [B, H], [B, H] and [B]."""
    sample, _, _ = every_sample(CASE)
    weights = log_weights(GRAPH, sample).reshape(len(X), -1)
    log_q = sample.log_prob.reshape(len(X), -1)
    return weights, np.exp(log_q), logsumexp(weights + log_q, axis=1)


def exact_bound(weights, q, samples):
    """The expectation over every choice of so many samples."""
    total, probability = weights, q
    for _ in range(samples - 1):
        total = np.logaddexp(total[:, :, None], weights[:, None]).reshape(len(X), -1)
        probability = (probability[:, :, None] * q[:, None]).reshape(len(X), -1)
    return np.sum(probability * (total - np.log(samples)), axis=1)


def test_bounds_rise_from_the_elbo_towards_the_likelihood(enumerated):
    weights, q, likelihood = enumerated
    bounds = [exact_bound(weights, q, samples) for samples in (1, 2, 3)]
    np.testing.assert_allclose(bounds[0].mean(), hnca.exact_gradient(GRAPH, x=X)[0], rtol=1e-12)
    for lower, higher in zip(bounds, [*bounds[1:], likelihood], strict=True):
        assert (higher > lower).all()


@pytest.mark.parametrize("samples", [1, 2, 3])
def test_the_bound_has_its_exact_expectation(enumerated, samples):
    keys = jax.random.split(jax.random.key(samples), 20_000)
    drawn = jax.vmap(lambda key: multi_sample_bound(GRAPH, key, samples, x=X))(keys)
    expected = exact_bound(*enumerated[:2], samples)
    errors = drawn.std(axis=0) / np.sqrt(len(keys))
    assert (np.abs(drawn.mean(axis=0) - expected) < 5 * errors).all()


def test_many_samples_come_close(enumerated):
    """The mean weight is an unbiased estimate of p(x), of known variance."""
    weights, q, likelihood = enumerated
    samples = 20_000
    variance = np.sum(q * np.exp(2 * weights), axis=1) - np.exp(2 * likelihood)
    estimate = np.exp(multi_sample_bound(GRAPH, jax.random.key(0), samples, x=X))
    error = np.sqrt(variance / samples)
    assert (error < 0.2 * np.exp(likelihood)).all()
    assert (np.abs(estimate - np.exp(likelihood)) < 5 * error).all()


def test_improbable_images_do_not_underflow():
    """Weights of exp(-2000) and less."""
    far = jnp.full_like(GRAPH.objective[0].layer.logits.bias, -2000.0)
    where = lambda graph: graph.objective[0].layer.logits.bias
    graph = eqx.tree_at(where, GRAPH, far)
    bound = multi_sample_bound(graph, jax.random.key(0), 50, x=jnp.ones_like(X))
    assert np.isfinite(bound).all()
    assert (bound < -5000).all()


def test_what_has_no_likelihood_is_refused():
    policy = bandit(1)
    with pytest.raises(ValueError, match="LogProb and Entropy"):
        log_weights(policy.graph, policy.graph.sample(jax.random.key(0), **policy.context))
    partial = hnca.Graph(GRAPH.nodes, GRAPH.objective[:2])
    with pytest.raises(ValueError, match="'h1' has none"):
        log_weights(partial, partial.sample(jax.random.key(0), x=X))
