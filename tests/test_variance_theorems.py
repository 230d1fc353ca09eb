"""HNCA never has more variance than REINFORCE: elementwise, exactly, component by component."""

from collections.abc import Sequence

import jax
import numpy as np
import pytest

import hnca
from enumeration import every_sample, of_single_samples, variance
from graphs import CASES, Case
from hnca.credit import gradients
from test_unbiased import frozen

GRAPHS = [
    "bandit-2",
    "elbo-2",
    "diamond",
    "two-heads",
    "categorical-hidden",
    "linear-and-function",
]


def influence_variance(
    case: Case, *estimators: hnca.AbstractEstimator, states: Sequence = ()
) -> list[list[np.ndarray]]:
    """For each estimator, the variance of the part that the theorems speak of (left-hand term of
    Eq. 4), for every parameter of every node. Baselines are at 0, unless `states` are given."""
    states = states or [estimator.init(case.graph) for estimator in estimators]
    sample, rewards, probability = every_sample(case)
    nodes_alone = hnca.Graph(case.graph.nodes)

    def influence(sample, rewards):
        values = case.graph.component_values(sample, rewards)
        assigned = [
            estimator.assign(case.graph, sample, values, state, None)[0]
            for estimator, state in zip(estimators, states, strict=True)
        ]
        return [gradients(nodes_alone, each) for each in assigned]

    results = of_single_samples(influence, sample, rewards)
    return [jax.tree.leaves(variance(result, probability)) for result in results]


def single_components(case: Case) -> dict[str, Case]:
    graphs = {part.name: hnca.Graph(case.graph.nodes, [part]) for part in case.graph.objective}
    return {
        name: Case(graph, {key: case.context[key] for key in graph.context_names})
        for name, graph in graphs.items()
    }


@pytest.mark.parametrize("case", GRAPHS)
def test_variance_of_each_component(case):
    """Theorem 1 (one opaque component) and the theorem on the components of f-HNCA."""
    reduced = False
    for name, single in single_components(CASES[case]()).items():
        hindsight, reinforce = influence_variance(single, hnca.HNCA(), hnca.Reinforce())
        for ours, theirs in zip(hindsight, reinforce, strict=True):
            assert np.all(ours <= theirs * (1 + 1e-12) + 1e-15), name
            reduced |= bool(np.any(ours < 0.9 * theirs))
    assert reduced, "nowhere less variance: the theorems would hold for a copy of REINFORCE"


@pytest.mark.parametrize("case", ["skip-connection", "two-heads", "elbo-2"])
def test_variance_of_each_component_less_the_same_baseline(case):
    """The theorems again: HNCA's credit is the mean of REINFORCE's given all but the unit, and a
    baseline that has no part in the unit goes through the mean."""
    baseline, reduced = hnca.Learned(3), False
    hindsight, reinforce = hnca.HNCA(baseline), hnca.Reinforce(baseline)
    for name, single in single_components(CASES[case]()).items():
        fits = frozen(reinforce.init(single.graph, key=jax.random.key(0)))
        routes = hindsight.init(single.graph, key=jax.random.key(0))
        same = {node: dict.fromkeys(labels, fits[node]) for node, labels in routes.items()}
        results = influence_variance(single, hindsight, reinforce, states=[same, fits])
        for ours, theirs in zip(*results, strict=True):
            assert np.all(ours <= theirs * (1 + 1e-12) + 1e-15), name
            reduced |= bool(np.any(ours < 0.9 * theirs))
    assert reduced, "nowhere less variance: the theorems would hold for a copy of REINFORCE"


def test_pruning_children_reduces_variance():
    """Credit through children that do not matter is noise (Appendix "HNCA Ablation Results")."""
    case = single_components(CASES["elbo-2"]())["p:x"]
    pruned, unpruned = influence_variance(case, hnca.HNCA(), hnca.HNCA(prune_children=False))
    assert sum(map(np.sum, pruned)) < 0.9 * sum(map(np.sum, unpruned))
