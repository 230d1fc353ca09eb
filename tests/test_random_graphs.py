"""Unbiasedness again, on graphs that nobody thought of.

The oracle is REINFORCE with the whole objective, written out here. Only credit is compared, on
every configuration at once: one small program for each graph, so that there can be many.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hnca
from graphs import Case, bits, lively
from test_unbiased import frozen

CONTEXT = {"x": 2, "z": 1}  # widths
LAYERS = {
    "single": (1, lambda inputs, key: hnca.Bernoulli(inputs, 1, key=key)),
    "signed": (2, lambda inputs, key: hnca.Bernoulli(inputs, 2, values=(-1, 1), key=key)),
    "choice": (3, lambda inputs, key: hnca.Categorical(inputs, 3, key=key)),
}
COMPONENTS = ["reward", "entropy", "log_prob", "linear", "function"]
ESTIMATORS = [
    hnca.HNCA(hnca.MovingAverage()),
    hnca.HNCA(hnca.MovingAverage(), prune_children=False),
    hnca.HNCA(hnca.MovingAverage(), prune_children=False, downstream_only=False),
]
FEW, MANY = range(12), range(12, 120)


def mix(*arrays):
    return jnp.cos(sum(array.reshape(len(array), -1).cumsum(1).sum(1) for array in arrays))


class Recipe:
    """Three or four layers, each of which reads an earlier one and perhaps more, and two or three
    components on anything."""

    def __init__(self, seed: int):
        rng = np.random.default_rng(seed)
        self.seed, some = seed, lambda names: [name for name in names if rng.random() < 0.4]
        names = [f"n{number}" for number in range(rng.integers(3, 5))]
        self.kinds = {name: str(rng.choice(list(LAYERS))) for name in names}
        self.parents = {names[0]: [*some(CONTEXT)]}
        for number, name in enumerate(names[1:], 1):
            certain = str(rng.choice(names[:number]))
            others = [each for each in names[:number] if each != certain]
            self.parents[name] = [str(p) for p in rng.permutation([certain, *some(others)])]
            self.parents[name] += some(CONTEXT)
        kinds = rng.choice(COMPONENTS, size=rng.integers(2, 4), replace=False)
        self.components = []  # kind, a node, what else it reads
        for kind in kinds:
            own = str(rng.choice(names))
            others = some([each for each in [*CONTEXT, *names] if each != own])
            self.components.append((str(kind), own, others))

    def case(self) -> Case:
        keys = iter(jax.random.split(jax.random.key(self.seed), 16))
        widths = CONTEXT | {name: LAYERS[kind][0] for name, kind in self.kinds.items()}
        inputs = lambda parents: sum(widths[parent] for parent in parents)
        layer = lambda kind, parents: LAYERS[kind][1](inputs(parents), next(keys))

        def component(kind, own, others):
            name, parents = f"{kind}-{own}", [own, *others]
            if kind == "reward":
                return hnca.Reward(name, parents)
            if kind == "entropy":
                return hnca.Entropy(own)
            if kind == "log_prob":
                return hnca.LogProb(own, layer(self.kinds[own], others), others)
            if kind == "linear":
                return hnca.Linear(name, inputs(parents), 2, jnp.sin, parents, key=next(keys))
            return hnca.Function(name, mix, parents)

        nodes = [hnca.Node(n, layer(self.kinds[n], p), p) for n, p in self.parents.items()]
        graph = lively(hnca.Graph(nodes, [component(*each) for each in self.components]))
        return Case(graph, {name: bits(1, CONTEXT[name]) for name in graph.context_names})


def expected(credit, features, probability) -> np.ndarray:
    """The expected gradient of a matrix and a bias."""
    flat, seen = np.reshape(credit, (len(features), -1)), np.asarray(features)
    return np.einsum("n,no,ni->oi", probability, flat, np.insert(seen, 0, 1, axis=1))


def score(layer: hnca.AbstractLayer, logits, values) -> np.ndarray:
    """d log pi / d logits, from the definition."""
    logits, values = np.asarray(logits), np.asarray(values)
    if isinstance(layer, hnca.Bernoulli):
        rest, active = layer.values
        return (values - rest) / (active - rest) - 1 / (1 + np.exp(-logits))
    odds = np.exp(logits)
    return np.eye(3)[values.reshape(-1, 1)] - odds / odds.sum(-1, keepdims=True)


def check(seed: int) -> None:
    case, estimator = Recipe(seed).case(), ESTIMATORS[seed % len(ESTIMATORS)]
    graph, context = case
    everything = hnca.configurations(graph)
    count = len(next(iter(everything.values())))
    repeated = {name: jnp.repeat(array, count, axis=0) for name, array in context.items()}

    @jax.jit
    def run(arrays):
        sample = graph.observe(**arrays)
        values = graph.component_values(sample, case.world(sample))
        state = frozen(estimator.init(graph))
        [(_, credit)], _ = estimator.assign(graph, sample, values, state, None)
        features = {node.name: graph.features(sample, node.parents) for node in graph.nodes}
        return sample, sum(values.values()), credit, features

    sample, objective, credit, features = run(everything | repeated)
    probability = np.exp(sample.log_prob)
    np.testing.assert_allclose(probability.sum(), 1, rtol=1e-12)
    for node in graph.nodes:
        name = node.name
        reinforce = score(node.layer, sample.logits[name], sample[name])
        reinforce *= np.reshape(objective, (-1, *[1] * (reinforce.ndim - 1)))
        truth = expected(reinforce, features[name], probability)
        estimate = expected(credit[name], features[name], probability)
        np.testing.assert_allclose(
            estimate, truth, rtol=1e-10, atol=1e-12, err_msg=f"{seed} {name}"
        )


@pytest.mark.parametrize("seed", FEW)
def test_expected_credit_is_that_of_reinforce(seed):
    check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", MANY)
def test_expected_credit_is_that_of_reinforce_on_many(seed):
    check(seed)


def test_random_graphs_have_everything():
    few = [Recipe(seed) for seed in FEW]
    assert {kind for recipe in few for kind in recipe.kinds.values()} == set(LAYERS)
    assert {kind for recipe in few for kind, _, _ in recipe.components} == set(COMPONENTS)
    edges = [[p for p in parents if p in r.kinds] for r in few for parents in r.parents.values()]
    assert sum(len(read) > 1 for read in edges) > 5
    for recipe in few:
        for parents in list(recipe.parents.values())[1:]:
            assert set(parents) & set(recipe.kinds)
