"""A method under way in a comparison: its program, its state, and what was measured so far."""

import math
import time
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PRNGKeyArray, PyTree

from .credit import gradient_variance, parameter_counts
from .estimators import AbstractEstimator
from .estimators.objectives import ExpectedSum
from .exact import World
from .graph import Graph, Node
from .tally import Tally, Vectors

SAMPLES_AT_ONCE = 8  # of the batch, in one call of a program
NUMBERS_AT_ONCE = 2**25  # in the gradients that are in memory together
WARM_UP = 600  # samples before anything is measured, for methods with a state
LEARNT_AT_ONCE = 50  # of them
ENUMERATED = 2**12  # configurations of all units together


class Problem(NamedTuple):
    """What all methods are measured on."""

    graph: Graph
    context: dict[str, Array]
    world: World | None
    exact: bool  # whether to enumerate all samples, where that can be done

    @property
    def batch(self) -> int:
        return len(next(iter(self.context.values()))) if self.context else 1

    @property
    def samples(self) -> int:
        """How many samples of the batch a program draws at once."""
        count = sum(parameter_counts(self.graph).values())
        return max(1, min(SAMPLES_AT_ONCE, NUMBERS_AT_ONCE // max(count, 1)))

    @property
    def is_enumerable(self) -> bool:
        choices = [node.layer.choices**node.layer.units for node in self.graph.nodes]
        return self.exact and math.prod(choices) <= ENUMERATED


class Contender:
    """A method under way: its program, its state, and what was measured so far."""

    def __init__(
        self, name: str, estimator: AbstractEstimator | None, state: PyTree, draws: Callable
    ):
        self.name, self.estimator, self.state = name, estimator, state
        self._draws = eqx.filter_jit(draws)
        self._learns = eqx.filter_jit(lambda *inputs: draws(*inputs)[0])  # no more than it needs
        self._program, self._lesson = None, None
        self.megabytes: float | None = None
        self.warm_up, self.taught = 0, 0.0  # samples, seconds
        self.took = 0.0  # seconds for the last call, with what is made of it
        self.forget()

    @property
    def is_learning(self) -> bool:
        """Whether it could use more samples before it is measured."""
        return self._lesson is not None and self.warm_up < WARM_UP

    @property
    def has_other_objective(self) -> bool:
        return self.estimator is not None and not isinstance(self.estimator.objective, ExpectedSum)

    def forget(self) -> None:
        """What was measured while compiling and warming up says nothing."""
        self.seconds: list[float] = []  # a step, by round
        self.variances: list[dict[str, float]] = []
        self.gradient, self.along = Tally(), Tally()  # whole, and along the reference's directions
        self.cosines: list[float] = []  # with the reference
        self.shares: list[float] = []  # of the reference, along it

    def prepare(self, problem: Problem) -> None:
        """Gets the program ready. A method that cannot do this network says so here."""
        keys = jax.random.split(jax.random.key(0), problem.samples)
        self._program = self._draws.lower(problem.graph, self.state, keys).compile()
        if jax.tree.leaves(self.state):
            keys = jax.random.split(jax.random.key(0), LEARNT_AT_ONCE)
            self._lesson = self._learns.lower(problem.graph, self.state, keys).compile()
        memory = self._program.compiled.memory_analysis()
        if memory is not None:
            self.megabytes = memory.temp_size_in_bytes / 1e6

    def learn(self, problem: Problem, key: PRNGKeyArray) -> None:
        """Fresh samples for the state alone: quicker, as their gradients are not asked for."""
        if self._lesson is not None:
            keys = jax.random.split(key, LEARNT_AT_ONCE)
            began = time.perf_counter()
            self.state = jax.block_until_ready(self._lesson(problem.graph, self.state, keys))
            self.taught += time.perf_counter() - began
            self.warm_up += LEARNT_AT_ONCE

    def draw(self, problem: Problem, key: PRNGKeyArray) -> Vectors:
        """Gradient estimates from fresh samples of the batch."""
        assert self._program is not None
        entered, keys = time.perf_counter(), jax.random.split(key, problem.samples)
        began = time.perf_counter()
        self.state, vectors, variance = self._program(problem.graph, self.state, keys)
        jax.block_until_ready(vectors)
        self.seconds.append((time.perf_counter() - began) / problem.samples)
        self.variances.append({name: float(value) for name, value in variance.items()})
        self.gradient.add(vectors)
        jax.block_until_ready(self.gradient.mean)
        self.took = time.perf_counter() - entered
        return vectors


def estimation(problem: Problem, estimator: AbstractEstimator) -> Callable:
    """Gradient estimates from a few samples of the batch, and the variance of the first."""

    def one(graph: Graph, state: PyTree, key: PRNGKeyArray, measured: Array):
        first, second = jax.random.split(key)
        sample = graph.sample(first, **problem.context)
        answer = None if problem.world is None else problem.world(sample)
        estimate, state = estimator(graph, sample, state, reward=answer, key=second)
        variance = lambda: gradient_variance(graph, sample, estimate)
        nothing = lambda: jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        shapes = jax.eval_shape(variance)
        found = jax.lax.cond(measured, variance, nothing)
        return state, (gradient_vectors(graph, estimate.grads), found)

    return _scanned(one)


def backpropagation(problem: Problem) -> Callable:
    """Backpropagation through the same samples, as if units were their means. In place of a reward
    that cannot be differentiated stands the sum of what it is the reward of."""

    def value(graph: Graph, key: PRNGKeyArray) -> Float[Array, ""]:
        keys = dict(zip(graph.node_names, jax.random.split(key, len(graph.nodes)), strict=True))

        def pick(node: Node, logits: Float[Array, "B ..."]) -> Float[Array, "B U *K"]:
            soft, drawn = node.layer.mean(logits), node.layer.sample(logits, keys[node.name])
            return soft + jax.lax.stop_gradient(node.layer.expand(drawn) - soft)

        moved = graph.forward(problem.context, pick)
        stand_in = lambda part: jnp.sum(graph.features(moved, part.inputs(graph)), axis=1)
        parts = [stand_in(p) if p.opaque else p.value(graph, moved) for p in graph.objective]
        return jnp.mean(sum(parts, jnp.zeros(moved.batch)))

    def one(graph: Graph, state: PyTree, key: PRNGKeyArray, measured: Array):
        return state, (gradient_vectors(graph, eqx.filter_grad(value)(graph, key)), {})

    return _scanned(one)


def _scanned(one: Callable) -> Callable:
    def draws(graph: Graph, state: PyTree, keys: Key[Array, " N"]):
        measured = jnp.arange(len(keys)) == 0
        step = lambda state, entry: one(graph, state, *entry)
        state, (vectors, variances) = jax.lax.scan(step, state, (keys, measured))
        return state, vectors, jax.tree.map(lambda values: values[0], variances)

    return draws


def gradient_vectors(graph: Graph, grads: Graph) -> Vectors:
    """The gradient of each set of parameters in a row, by the names that `parameter_counts` has."""
    modules: dict[str, PyTree] = {part.name: part for part in grads.objective}
    modules |= {name: node.layer for name, node in grads.conditionals.items()}
    leaves = lambda module: jax.tree.leaves(eqx.filter(module, eqx.is_inexact_array))
    return {
        name: jnp.concatenate([leaf.ravel() for leaf in leaves(modules[name])])
        for name in parameter_counts(graph)
    }
