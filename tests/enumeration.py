"""Exact moments of anything that is computed from a sample of a small graph."""

from collections.abc import Iterator, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import hnca
from graphs import Case


def every_sample(case: Case) -> tuple[hnca.Sample, dict | None, np.ndarray]:
    """Every configuration of every example as one batch, with its rewards and probabilities."""
    graph, context = case
    everything = hnca.configurations(graph)
    count = len(next(iter(everything.values())))
    batch = len(next(iter(context.values()))) if context else 1
    tiled = {name: np.concatenate([v] * batch) for name, v in everything.items()}
    repeated = {name: np.repeat(array, count, axis=0) for name, array in context.items()}
    sample = jax.jit(lambda values: graph.observe(**values))(tiled | repeated)
    return sample, case.world(sample), np.exp(sample.log_prob) / batch


def of_single_samples(function, sample: hnca.Sample, rewards: dict | None):
    """The function of every sample alone, as a batch of one."""

    def one(pair):
        return function(*jax.tree.map(lambda array: array[None], pair))

    results = eqx.filter_jit(jax.vmap(one))((sample, rewards))
    return jax.tree.map(np.asarray, eqx.filter(results, eqx.is_array))


def estimates(
    case: Case, estimator: hnca.AbstractEstimator, states: Sequence
) -> Iterator[tuple[hnca.Estimate, np.ndarray]]:
    """The estimates from every sample alone and their probability, for each of the states."""
    sample, rewards, probability = every_sample(case)

    def in_all_states(sample, rewards):
        one = lambda state: estimator(case.graph, sample, state, reward=rewards)[0]
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
        return eqx.filter_vmap(one, axis_size=len(states))(stacked)

    results = of_single_samples(in_all_states, sample, rewards)
    for index in range(len(states)):
        yield jax.tree.map(lambda leaf, i=index: leaf[:, i], results), probability


def expectation(tree, probability):
    return jax.tree.map(lambda leaf: np.tensordot(probability, leaf, axes=1), tree)


def variance(tree, probability):
    mean = expectation(tree, probability)
    return expectation(jax.tree.map(lambda leaf, m: (leaf - m) ** 2, tree, mean), probability)


def assert_trees_close(actual, expected, message="", rtol=1e-12):
    """Equal to float64 rounding, relative to the largest entry of the whole tree."""
    actual, expected = jax.tree.leaves(actual), jax.tree.leaves(expected)
    assert len(actual) == len(expected) > 0
    scale = max(float(np.max(np.abs(leaf), initial=1e-3)) for leaf in expected)
    for a, e in zip(actual, expected, strict=True):
        np.testing.assert_allclose(
            np.squeeze(a), np.squeeze(e), rtol=rtol, atol=rtol * scale, err_msg=message
        )
