"""An epoch as one compiled program: a step inside a scan, without a return to the host."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from ...credit import gradient_variance
from ...estimators import AbstractEstimator
from ...exact import World
from ...graph import Graph

Task = Callable[[PyTree], tuple[dict[str, Array], World | None]]
"""What to do in a step: from its entry in the epoch's inputs, the context and the world's answer
(None if nothing in the objective is opaque)."""


Metrics = dict[str, Float[Array, "..."]]


class TrainState(eqx.Module):
    """What the next step needs."""

    graph: Graph
    opt_state: PyTree
    estimator_state: PyTree
    key: PRNGKeyArray
    step: Int[Array, ""]

    @staticmethod
    def start(
        graph: Graph,
        estimator: AbstractEstimator,
        optimizer: optax.GradientTransformation,
        key: PRNGKeyArray,
    ) -> "TrainState":
        """The state before the first step. Its arrays are copies: training uses up its own."""
        opt_state = optimizer.init(eqx.filter(graph, eqx.is_inexact_array))
        state = TrainState(graph, opt_state, estimator.init(graph), key, jnp.zeros((), int))
        return jax.tree.map(lambda leaf: leaf.copy() if eqx.is_array(leaf) else leaf, state)


Program = Callable[[PyTree, TrainState], tuple[TrainState, Metrics]]


class Epoch:
    """A compiled function of a state and an epoch's inputs: the state after the last step, and
    metrics by step. The state that it is given is donated: its memory is used again, so do not use
    it afterwards."""

    def __init__(self, program: Program):
        # The state comes second because equinox donates all arguments but the first.
        self._program = eqx.filter_jit(program, donate="all-except-first")

    def __call__(self, state: TrainState, inputs: PyTree) -> tuple[TrainState, Metrics]:
        return self._program(inputs, state)

    def compile(self, state: TrainState, inputs: PyTree) -> None:
        """Does now what the first call would do before its work. From then on, only arguments of
        the same shapes will do."""
        self._program = self._program.lower(inputs, state).compile()


def epoch_program(
    estimator: AbstractEstimator,
    optimizer: optax.GradientTransformation,
    task: Task,
    *,
    with_variance: bool = True,
) -> Program:
    """An epoch's inputs are a pytree of arrays with an entry for each step. The metrics are the
    mean `value` of the objective and, unless it is switched off, the `variance/NAME` of each
    layer's gradient.

    `optimizer` has to walk uphill: `maximize(optax.adam(1e-4))`.
    """

    def step(state: TrainState, entry: PyTree):
        key, sample_key, estimate_key = jax.random.split(state.key, 3)
        context, world = task(entry)
        sample = state.graph.sample(sample_key, **context)
        reward = None if world is None else world(sample)
        estimate, estimator_state = estimator(
            state.graph, sample, state.estimator_state, reward=reward, key=estimate_key
        )
        metrics = {"value": jnp.mean(estimate.value)}
        if with_variance:
            variances = gradient_variance(state.graph, sample, estimate)
            metrics |= {f"variance/{name}": value for name, value in variances.items()}
        params = eqx.filter(state.graph, eqx.is_inexact_array)
        grads = eqx.filter(estimate.grads, eqx.is_inexact_array)
        updates, opt_state = optimizer.update(grads, state.opt_state, params)
        graph = eqx.apply_updates(state.graph, updates)
        return TrainState(graph, opt_state, estimator_state, key, state.step + 1), metrics

    def epoch(inputs: PyTree, state: TrainState):
        arrays, static = eqx.partition(state, eqx.is_array)

        def body(arrays, entry):
            after, metrics = step(eqx.combine(arrays, static), entry)
            return eqx.filter(after, eqx.is_array), metrics

        arrays, metrics = jax.lax.scan(body, arrays, inputs)
        return eqx.combine(arrays, static), metrics

    return epoch


def make_epoch(
    estimator: AbstractEstimator,
    optimizer: optax.GradientTransformation,
    task: Task,
    *,
    with_variance: bool = True,
) -> Epoch:
    """The `epoch_program`, compiled."""
    return Epoch(epoch_program(estimator, optimizer, task, with_variance=with_variance))
