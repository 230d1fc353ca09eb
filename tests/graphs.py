"""Small graphs of every shape that the library claims to handle."""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

import hnca
from hnca import Bernoulli, Categorical, Entropy, Function, Graph, Linear, LogProb, Node, Reward


class Case(NamedTuple):
    graph: Graph
    context: dict[str, jax.Array]

    def world(self, sample: hnca.Sample) -> dict[str, jax.Array] | None:
        """An arbitrary answer to every `Reward` that depends on all of its parents."""
        rewards = {}
        for component in self.graph.objective:
            if isinstance(component, Reward):
                features = self.graph.features(sample, component.parents)
                rewards[component.name] = jnp.sin(
                    1 + features @ jnp.arange(1, features.shape[1] + 1)
                )
        return rewards or None


def keys(seed: int = 0):
    return iter(jax.random.split(jax.random.key(seed), 64))


def lively(graph: Graph, seed: int = 1) -> Graph:
    """The graph with larger weights and non-zero biases, so that every unit matters."""
    leaves, structure = jax.tree.flatten(eqx.filter(graph, eqx.is_inexact_array))
    noise = [
        leaf + 0.7 * jax.random.normal(key, leaf.shape)
        for leaf, key in zip(
            leaves, jax.random.split(jax.random.key(seed), len(leaves)), strict=True
        )
    ]
    static = eqx.filter(graph, eqx.is_inexact_array, inverse=True)
    return eqx.combine(jax.tree.unflatten(structure, noise), static)


def bits(batch: int, width: int, seed: int = 2) -> jax.Array:
    return jax.random.bernoulli(jax.random.key(seed), 0.5, (batch, width)).astype(float)


def bandit(depth: int, values=(-1, 1)) -> Case:
    k, width = keys(depth), 3
    nodes, parent, size = [], "x", width
    for level in range(1, depth + 1):
        layer = Bernoulli(size, 2, values=values, key=next(k))
        nodes.append(Node(f"h{level}", layer, parents=[parent]))
        parent, size = f"h{level}", 2
    nodes.append(Node("action", Categorical(size, 3, key=next(k)), parents=[parent]))
    graph = Graph(nodes, [Reward("reward", parents=["action"])])
    return Case(lively(graph), {"x": bits(2, width)})


def elbo(depth: int) -> Case:
    k, width = keys(depth), 3
    sizes = [width, 3, 2, 2][: depth + 1]
    names = ["x", "h1", "h2", "h3"][: depth + 1]
    nodes, objective = [], []
    for lower, upper, name, parent in zip(sizes, sizes[1:], names[1:], names, strict=False):
        nodes.append(Node(name, Bernoulli(lower, upper, key=next(k)), parents=[parent]))
        objective.append(LogProb(parent, Bernoulli(upper, lower, key=next(k)), given=[name]))
        objective.append(Entropy(name))
    objective.append(LogProb(names[-1], Bernoulli(0, sizes[-1], key=next(k))))
    return Case(lively(Graph(nodes, objective)), {"x": bits(2, width)})


def skip_connection() -> Case:
    k = keys()
    graph = Graph(
        nodes=[
            Node("h1", Bernoulli(2, 2, key=next(k)), parents=["x"]),
            Node("h2", Bernoulli(2, 2, key=next(k)), parents=["h1"]),
            Node("action", Categorical(6, 3, key=next(k)), parents=["h2", "x", "h1"]),
        ],
        objective=[Reward("reward", parents=["action"])],
    )
    return Case(lively(graph), {"x": bits(2, 2)})


def diamond() -> Case:
    """Three routes to h: through a only, through a and b, and straight."""
    k = keys()
    graph = Graph(
        nodes=[
            Node("out", Bernoulli(4, 1, key=next(k)), parents=["a", "b"]),
            Node("h", Bernoulli(2, 2, key=next(k)), parents=["x"]),
            Node("a", Bernoulli(2, 2, values=(-1, 1), key=next(k)), parents=["h"]),
            Node("b", Bernoulli(2, 2, key=next(k)), parents=["h"]),
        ],
        objective=[
            Reward("reward", parents=["out"]),
            LogProb("a", Bernoulli(1, 2, values=(-1, 1), key=next(k)), given=["out"]),
            Function("left", lambda h, a: jnp.sin(h.sum(-1) + 2 * a.prod(-1)), parents=["h", "a"]),
            Entropy("b"),
        ],
    )
    return Case(lively(graph), {"x": bits(2, 2)})


def two_heads() -> Case:
    """Only one head reaches each component."""
    k = keys()
    graph = Graph(
        nodes=[
            Node("h", Bernoulli(2, 3, key=next(k)), parents=["x"]),
            Node("left", Bernoulli(3, 2, key=next(k)), parents=["h"]),
            Node("right", Categorical(3, 3, key=next(k)), parents=["h"]),
        ],
        objective=[
            Reward("answer", parents=["right"]),
            Function("cost", lambda left: -(left.sum(-1) ** 2), parents=["left"]),
        ],
    )
    return Case(lively(graph), {"x": bits(2, 2)})


def categorical_hidden() -> Case:
    k = keys()
    graph = Graph(
        nodes=[
            Node("c", Categorical(2, 3, units=2, key=next(k)), parents=["x"]),
            Node("d", Categorical(6, 3, key=next(k)), parents=["c"]),
            Node("h", Bernoulli(6 + 3, 2, key=next(k)), parents=["c", "d"]),
        ],
        objective=[
            LogProb("c", Categorical(2, 3, units=2, key=next(k)), given=["h"]),
            LogProb("x", Bernoulli(9, 2, key=next(k)), given=["d", "c"]),
            Entropy("c"),
            Entropy("d"),
            Entropy("h"),
            Reward("reward", parents=["h"]),
        ],
    )
    return Case(lively(graph), {"x": bits(2, 2)})


def mixed_codings() -> Case:
    k = keys()
    graph = Graph(
        nodes=[
            Node("h1", Bernoulli(2, 2, values=(0, 1), key=next(k)), parents=["x"]),
            Node("h2", Bernoulli(2, 2, values=(-1, 1), key=next(k)), parents=["h1"]),
            Node("h3", Bernoulli(4, 2, values=(0.5, -2), key=next(k)), parents=["h2", "h1"]),
        ],
        objective=[
            LogProb("h2", Bernoulli(2, 2, values=(-1, 1), key=next(k)), given=["h3"]),
            LogProb("x", Bernoulli(4, 2, key=next(k)), given=["h1", "h2"]),
            Entropy("h3"),
        ],
    )
    return Case(lively(graph), {"x": bits(2, 2)})


class ConvFeatures(eqx.Module):
    conv: eqx.nn.Conv2d

    def __call__(self, x):
        side = round(x.size**0.5)
        return jax.nn.relu(self.conv(x.reshape(1, side, side))).ravel()


def conv_logits(side: int, units: int, key) -> hnca.Readout:
    first, second = jax.random.split(key)
    features = ConvFeatures(eqx.nn.Conv2d(1, 2, kernel_size=2, key=first))
    return hnca.Readout(features, hnca.Affine(2 * (side - 1) ** 2, units, key=second))


def network_logits() -> Case:
    """A conv net below, an MLP between two stochastic layers, a plain function at the end."""
    k = keys()
    mlp = eqx.nn.MLP(4, 2, width_size=5, depth=1, activation=jnp.tanh, key=next(k))
    choose = lambda h: jnp.stack([h @ jnp.array([1.0, -2.0]), h.sum(), jnp.prod(1 + h)])
    graph = Graph(
        nodes=[
            Node("h1", Bernoulli(9, 3, logits=conv_logits(3, 3, next(k))), parents=["image"]),
            Node("h2", Bernoulli(4, 2, values=(-1, 1), logits=mlp), parents=["h1", "z"]),
            Node("action", Categorical(2, 3, logits=hnca.Fixed(choose)), parents=["h2"]),
        ],
        objective=[Reward("reward", parents=["action"]), Entropy("h2")],
    )
    return Case(lively(graph), {"image": bits(2, 9).reshape(2, 3, 3), "z": bits(2, 1)})


class Quadratic(eqx.Module):
    """A function component with parameters of its own."""

    curvature: jax.Array

    def __call__(self, h, onehot, x):
        projected = h @ self.curvature + onehot[..., 0] @ jnp.ones(onehot.shape[-2])
        return projected**2 - x.sum(-1)


def linear_and_function() -> Case:
    k = keys()
    graph = Graph(
        nodes=[
            Node("h", Bernoulli(2, 3, values=(-1, 1), key=next(k)), parents=["x"]),
            Node("c", Categorical(3, 3, units=2, key=next(k)), parents=["h"]),
        ],
        objective=[
            Linear("tanh", 3 + 6 + 2, 4, jnp.tanh, parents=["h", "c", "x"], key=next(k)),
            Linear("gate", 3, 2, jax.nn.sigmoid, parents=["h"], key=next(k)),
            Function("quadratic", Quadratic(jnp.array([0.3, -1.0, 0.5])), parents=["h", "c", "x"]),
            Entropy("c"),
        ],
    )
    return Case(lively(graph), {"x": bits(2, 2)})


def opaque_everywhere() -> Case:
    """Two rewards: one sees a hidden layer and its child directly, one an upstream output."""
    k = keys()
    graph = Graph(
        nodes=[
            Node("h1", Bernoulli(3, 2, key=next(k)), parents=["x", "z"]),
            Node("h2", Bernoulli(2, 2, values=(-1, 1), key=next(k)), parents=["h1"]),
            Node("out", Bernoulli(4, 2, key=next(k)), parents=["h2", "h1"]),
        ],
        objective=[
            Reward("late", parents=["h2", "out"]),
            Reward("early", parents=["h1", "x"]),
            Linear("known", 2, 2, jnp.sin, parents=["h2"], key=next(k)),
        ],
    )
    return Case(lively(graph), {"x": bits(2, 2), "z": bits(2, 1, seed=5)})


def no_context() -> Case:
    k = keys()
    graph = Graph(
        nodes=[
            Node("b", Bernoulli(0, 2, key=next(k))),
            Node("c", Bernoulli(2, 2, key=next(k)), parents=["b"]),
        ],
        objective=[Function("distance", lambda b, c: (b - c) @ jnp.array([0.4, 1]), ["b", "c"])],
    )
    return Case(lively(graph), {})


CASES: dict[str, Callable[[], Case]] = {
    "bandit-1": lambda: bandit(1),
    "bandit-2": lambda: bandit(2, values=(0, 1)),
    "bandit-3": lambda: bandit(3),
    "elbo-1": lambda: elbo(1),
    "elbo-2": lambda: elbo(2),
    "elbo-3": lambda: elbo(3),
    "skip-connection": skip_connection,
    "diamond": diamond,
    "two-heads": two_heads,
    "categorical-hidden": categorical_hidden,
    "mixed-codings": mixed_codings,
    "network-logits": network_logits,
    "linear-and-function": linear_and_function,
    "opaque-everywhere": opaque_everywhere,
    "no-context": no_context,
}
