"""The oracle: expectations over every value that the units of a small graph can take."""

import math
from collections.abc import Callable, Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Num

from .graph import Graph, Sample
from .validation import checked_arrays, checked_weights
from .weights import Weights

LIMIT = 2**18  # configurations of all units together

World = Callable[[Sample], ArrayLike | Mapping[str, ArrayLike]]  # what it would answer


def configurations(graph: Graph) -> dict[str, Num[Array, "N ..."]]:
    """All N joint values of the units, as one batch of values for every node.

    >>> hnca.configurations(graph)["h1"].shape  # 2 x 2 x 2 values of three units
    (8, 3)
    """
    choices = [node.layer.choices for node in graph.nodes for _ in range(node.layer.units)]
    count = math.prod(choices)
    if count > LIMIT:
        shown = f"{count:,}" if count < 1e15 else f"about 1e{math.floor(math.log10(count))}"
        raise ValueError(f"too many configurations to enumerate: {shown}; the limit is {LIMIT:,}")
    digits = np.stack(np.unravel_index(np.arange(count), choices), axis=1)  # [N, units]
    ends = np.cumsum([node.layer.units for node in graph.nodes])[:-1]
    return {
        node.name: node.layer.chosen(jnp.asarray(taken))
        for node, taken in zip(graph.nodes, np.split(digits, ends, axis=1), strict=True)
    }


def exact_gradient(
    graph: Graph,
    /,
    *,
    reward: World | None = None,
    weights: Weights | None = None,
    **context: ArrayLike,
) -> tuple[Float[Array, ""], Graph]:
    """The expected objective, averaged over the examples of the context, and its gradient.

    `reward` is a function of a `Sample`: what the world would answer, `[B]`. Enumerates one example
    at a time, in the precision of the parameters: the batch of that sample is the configurations
    of one example. So what the answer depends on must be in the sample: for labels `y`, list them
    among the parents, `Reward("reward", parents=["action", "y"])`, and pass them as context.
    `weights` are those of `graph.value`.

    >>> value, grads = hnca.exact_gradient(graph, x=x)
    >>> value.shape, grads["h1"].layer.logits.weight.shape
    ((), (3, 6))
    """
    arrays = checked_arrays(context, graph.context_names, graph.node_names)
    batch = len(next(iter(arrays.values()))) if arrays else 1
    checked = checked_weights(weights, list(graph.structure.inputs), batch)
    return _enumerate(graph, reward, configurations(graph), arrays, checked)


@eqx.filter_jit
def _enumerate(
    graph: Graph,
    reward: World | None,
    everything: dict[str, Array],
    context: dict[str, Array],
    weights: dict[str, Array],
) -> tuple[Float[Array, ""], Graph]:
    count = len(next(iter(everything.values())))
    batch = len(next(iter(context.values()))) if context else 1

    def expectation(graph: Graph, example: dict[str, Array], weights) -> Float[Array, ""]:
        repeated = {k: jnp.broadcast_to(v[None], (count, *v.shape)) for k, v in example.items()}
        sample = graph.observe(**everything, **repeated)
        answer = None if reward is None else jax.lax.stop_gradient(reward(sample))
        return jnp.vdot(jnp.exp(sample.log_prob), graph.value(sample, answer, weights))

    def add(total, example):
        one = eqx.filter_value_and_grad(expectation)(graph, *example)
        return jax.tree.map(lambda t, o: t + o / batch, total, one), None

    start = jnp.zeros(()), jax.tree.map(jnp.zeros_like, eqx.filter(graph, eqx.is_inexact_array))
    total, _ = jax.lax.scan(add, start, (context, weights), length=batch)
    return total
