"""Compiled programs: an epoch as a step inside a scan, for one run or for several side by side."""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from ...credit import gradient_variance
from ...estimators import AbstractEstimator
from ...graph import Graph, Sample
from ...units import Bernoulli
from ..experiments import Step
from .compiling import elsewhere
from .devices import Devices

# What to do in a step, from its entry in the epoch's inputs: a `Step`, or its first fields.
Task = Callable[[PyTree], tuple[Any, ...]]
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
        estimator_state = estimator.init(graph, key=jax.random.fold_in(key, 0))
        state = TrainState(graph, opt_state, estimator_state, key, jnp.zeros((), int))
        return jax.tree.map(lambda leaf: leaf.copy() if eqx.is_array(leaf) else leaf, state)


class Program:
    """A compiled function of what all runs share, of a run's key, and of what else it has of its
    own: of one run, `function(shared, key, own)`; of several, its `vmap`. A run that is alone is
    not mapped over, so that its bits do not depend on there being a way to do several.

    With `donate`, what the runs have of their own is used up: its memory is used again."""

    def __init__(
        self,
        function: Callable[..., PyTree],
        devices: Devices | None = None,
        *,
        donate: bool = False,
    ):
        self._function, self._devices = function, devices
        # Equinox donates all arguments but the first.
        self._jitted = eqx.filter_jit(self._run, donate="all-except-first" if donate else "none")
        self._compiled: dict[int, Any] = {}  # by the number of runs

    def __call__(self, shared: PyTree, keys: Sequence[Any], own: Sequence[PyTree]) -> list[PyTree]:
        """What the function makes of each of the runs. It may still be under way on the device
        when this returns."""
        program = self._compiled.get(len(own), self._jitted)
        return program((shared, list(keys)), list(own))

    def compile(
        self,
        shared: PyTree,
        keys: Sequence[Any],
        own: Sequence[PyTree],
        look: Callable[[], None] = lambda: None,
    ) -> None:
        """Does now what the first call with so many runs would do before its work. From then on,
        only arguments of the same shapes will do. `look` is called every now and then."""
        lowered = self._jitted.lower((shared, list(keys)), list(own))
        self._compiled[len(own)] = elsewhere(lowered.compile, look)

    def _run(self, inputs: tuple[PyTree, list[Any]], own: list[PyTree]) -> list[PyTree]:
        shared, keys = inputs
        function = partial(self._function, shared)
        if len(own) == 1:
            results = [function(keys[0], own[0])]
        else:
            together = eqx.filter_vmap(function)(jnp.stack(keys), _stacked(own))
            results = [_one(together, number) for number in range(len(own))]
        return results if self._devices is None else self._devices.everywhere(results)


def _stacked(trees: Sequence[PyTree]) -> PyTree:
    arrays, static = eqx.partition(list(trees), eqx.is_array)
    return eqx.combine(jax.tree.map(lambda *leaves: jnp.stack(leaves), *arrays), static[0])


def _one(tree: PyTree, number: int) -> PyTree:
    return jax.tree.map(lambda leaf: leaf[number] if eqx.is_array(leaf) else leaf, tree)


def epoch_function(
    estimator: AbstractEstimator,
    optimizer: optax.GradientTransformation,
    task: Task,
    *,
    with_variance: bool = True,
    measured: Collection[str] | None = None,
) -> Callable[[PyTree, TrainState], tuple[TrainState, Metrics]]:
    """A function of an epoch's inputs and a state: the state after the last step, and metrics by
    step. The inputs are a pytree of arrays with an entry for each step. The metrics are the mean
    `value` of the objective and, unless it is switched off, the `variance/NAME` of the gradient of
    each layer (or of those that are `measured`) and, `firing/NAME`, how often each unit of a
    Bernoulli layer is expected to fire.

    `optimizer` has to walk uphill: `maximize(optax.adam(1e-4))`.
    """

    def step(state: TrainState, entry: PyTree, steps: int):
        key, sample_key, estimate_key = jax.random.split(state.key, 3)
        context, world, given = Step(*task(entry))
        weights = given(state.step / steps) if callable(given) else given
        sample = state.graph.sample(sample_key, **context)
        reward = None if world is None else world(sample)
        weighted = {} if weights is None else {"weights": weights}
        estimate, estimator_state = estimator(
            state.graph,
            sample,
            state.estimator_state,
            reward=reward,
            key=estimate_key,
            **weighted,
        )
        value = state.graph.value(sample, reward) if callable(given) else estimate.value
        metrics = {"value": jnp.mean(value)}
        if with_variance:
            variances = gradient_variance(state.graph, sample, estimate)
            kept = variances if measured is None else measured  # XLA drops the rest
            metrics |= {f"variance/{name}": variances[name] for name in kept}
            metrics |= {f"firing/{name}": mean for name, mean in _firing(state.graph, sample)}
        params = eqx.filter(state.graph, eqx.is_inexact_array)
        grads = eqx.filter(estimate.grads, eqx.is_inexact_array)
        updates, opt_state = optimizer.update(grads, state.opt_state, params)
        graph = eqx.apply_updates(state.graph, updates)
        return TrainState(graph, opt_state, estimator_state, key, state.step + 1), metrics

    def epoch(inputs: PyTree, state: TrainState):
        arrays, static = eqx.partition(state, eqx.is_array)
        steps = len(jax.tree.leaves(inputs)[0])

        def body(arrays, entry):
            after, metrics = step(eqx.combine(arrays, static), entry, steps)
            return eqx.filter(after, eqx.is_array), metrics

        arrays, metrics = jax.lax.scan(body, arrays, inputs)
        return eqx.combine(arrays, static), metrics

    return epoch


def _firing(graph: Graph, sample: Sample) -> Iterator[tuple[str, Float[Array, " U"]]]:
    """For each layer of Bernoulli units, their mean probability over the batch of firing."""
    for node in graph.nodes:
        if type(node.layer) is Bernoulli:  # a subclass may have another policy
            yield node.name, jnp.mean(jax.nn.sigmoid(sample.logits[node.name]), axis=0)


def make_epoch(
    estimator: AbstractEstimator,
    optimizer: optax.GradientTransformation,
    task: Task,
    *,
    with_variance: bool = True,
) -> Callable[[TrainState, PyTree], tuple[TrainState, Metrics]]:
    """The `epoch_function` of one run, compiled, as a function of the state and the inputs. The
    state that it is given is used up."""
    function = epoch_function(estimator, optimizer, task, with_variance=with_variance)
    program = Program(lambda inputs, _, state: function(inputs, state), donate=True)
    return lambda state, inputs: program(inputs, [None], [state])[0]
