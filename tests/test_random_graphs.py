"""Unbiasedness again, on graphs that nobody thought of."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hnca
from graphs import Case, bits, lively
from test_unbiased import check_unbiased

CONTEXT = {"x": 2, "z": 1}  # widths
LAYERS = {
    "single": (1, lambda inputs, key: hnca.Bernoulli(inputs, 1, key=key)),
    "signed": (2, lambda inputs, key: hnca.Bernoulli(inputs, 2, values=(-1, 1), key=key)),
    "choice": (3, lambda inputs, key: hnca.Categorical(inputs, 3, key=key)),
}
COMPONENTS = ["reward", "entropy", "log_prob", "linear", "function"]
ESTIMATORS = {
    "hnca": hnca.HNCA(hnca.MovingAverage()),
    "full-reward": hnca.HNCA(hnca.MovingAverage(), prune_children=False, downstream_only=False),
}


class Recipe(NamedTuple):
    seed: int
    nodes: list[tuple[str, str, list[str]]]  # name, kind of layer, parents
    components: list[tuple[str, str, list[str]]]  # kind, a node, what else it reads


@st.composite
def recipes(draw) -> Recipe:
    """Two to four layers with any parents, and one to three components on anything."""
    kinds = draw(st.lists(st.sampled_from(list(LAYERS)), min_size=2, max_size=4))
    names = [f"n{number}" for number in range(len(kinds))]

    def some(known):
        return draw(st.lists(st.sampled_from(known), unique=True))

    nodes = [
        (name, kind, some([*CONTEXT, *names[:number]]))
        for number, (name, kind) in enumerate(zip(names, kinds, strict=True))
    ]
    pairs = draw(
        st.lists(
            st.tuples(st.sampled_from(COMPONENTS), st.sampled_from(names)),
            unique=True,
            min_size=1,
            max_size=3,
        )
    )
    components = [
        (kind, own, some([name for name in [*CONTEXT, *names] if name != own]))
        for kind, own in pairs
    ]
    return Recipe(draw(st.integers(0, 1000)), draw(st.permutations(nodes)), components)


def mix(*arrays):
    return jnp.cos(sum(array.reshape(len(array), -1).cumsum(1).sum(1) for array in arrays))


def build(recipe: Recipe) -> Case:
    keys = iter(jax.random.split(jax.random.key(recipe.seed), 16))
    kinds = {name: kind for name, kind, _ in recipe.nodes}
    widths = CONTEXT | {name: LAYERS[kind][0] for name, kind in kinds.items()}

    def layer(kind, parents):
        return LAYERS[kind][1](sum(widths[parent] for parent in parents), next(keys))

    def component(kind, own, others):
        name, parents = f"{kind}-{own}", [own, *others]
        if kind == "reward":
            return hnca.Reward(name, parents)
        if kind == "entropy":
            return hnca.Entropy(own)
        if kind == "log_prob":
            return hnca.LogProb(own, layer(kinds[own], others), others)
        if kind == "linear":
            inputs = sum(widths[parent] for parent in parents)
            return hnca.Linear(name, inputs, 2, jnp.sin, parents, key=next(keys))
        return hnca.Function(name, mix, parents)

    nodes = [hnca.Node(name, layer(kind, parents), parents) for name, kind, parents in recipe.nodes]
    graph = lively(hnca.Graph(nodes, [component(*each) for each in recipe.components]))
    return Case(graph, {name: bits(1, CONTEXT[name]) for name in graph.context_names})


@given(recipes())
@settings(
    max_examples=4, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
def test_expectation_of_estimate_is_exact_gradient(recipe):
    check_unbiased(build(recipe), ESTIMATORS)
