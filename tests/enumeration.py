"""Exact moments of anything that is computed from a sample of a small graph."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import hnca
from graphs import Case


def every_sample(case: Case) -> tuple[hnca.Sample, dict | None, jax.Array]:
    """Every configuration of every example as one batch, with its rewards and probabilities."""
    graph, context = case
    everything = hnca.configurations(graph)
    count = len(next(iter(everything.values())))
    batch = len(next(iter(context.values()))) if context else 1
    tiled = {name: jnp.tile(v, (batch,) + (1,) * (v.ndim - 1)) for name, v in everything.items()}
    repeated = {name: jnp.repeat(array, count, axis=0) for name, array in context.items()}
    sample = graph.observe(**tiled, **repeated)
    return sample, case.world(sample), jnp.exp(sample.log_prob) / batch


def estimates(case: Case, estimator, state) -> tuple[hnca.Estimate, jax.Array]:
    """The estimate from every sample alone (a batch of one each), and its probability."""
    sample, rewards, probability = every_sample(case)

    def one(sample, rewards):
        sample, rewards = jax.tree.map(lambda array: array[None], (sample, rewards))
        return estimator(case.graph, sample, state, reward=rewards)[0]

    return eqx.filter_jit(jax.vmap(one))(sample, rewards), probability


def expectation(tree, probability):
    return jax.tree.map(lambda leaf: jnp.tensordot(probability, leaf, axes=1), tree)


def variance(tree, probability):
    mean = expectation(tree, probability)
    centred = jax.tree.map(lambda leaf, m: (leaf - m[None]) ** 2, tree, mean)
    return expectation(centred, probability)


def assert_trees_close(actual, expected, message="", rtol=1e-12):
    """Equal to float64 rounding, relative to the largest entry of the whole tree."""
    actual, expected = jax.tree.leaves(actual), jax.tree.leaves(expected)
    assert len(actual) == len(expected) > 0
    scale = max(float(jnp.max(jnp.abs(leaf))) for leaf in expected if leaf.size)
    for a, e in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, e, rtol=rtol, atol=rtol * max(scale, 1e-3), err_msg=message)
