"""From credit to gradients: d objective / d logit in, d objective / d parameter out."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from .graph import Graph, Node, Sample
from .units import AbstractLayer, Affine

Credit = dict[str, Float[Array, "B ..."]]  # by the layer's name, in the shape of its logits


class Estimate(NamedTuple):
    """What an estimator makes of a sample."""

    credit: Credit  # estimate of d objective / d logit, per example, direct dependence included
    grads: Graph  # a pytree like the graph: batch mean of the objective's gradient, uphill
    value: Float[Array, " B"]  # the objective of the sample
    # Further samples of a method that credits them, too (loo-independent). The gradient is then
    # the sum over all samples, and `credit` no more than the sample's own share of it.
    others: tuple[tuple[Sample, Credit], ...] = ()


def direct_credit(graph: Graph, sample: Sample) -> Credit:
    """What the objective's direct dependence on logits adds (right-hand sum of Eq. 6)."""
    return added(*(component.direct_credit(graph, sample) for component in graph.objective))


def added(*parts: Credit) -> Credit:
    """The sum of credits, each of which may leave out some layers."""
    total: Credit = {}
    for part in parts:
        for name, credit in part.items():
            total[name] = total[name] + credit if name in total else credit
    return total


def gradients(graph: Graph, assigned: Sequence[tuple[Sample, Credit]]) -> Graph:
    """Batch mean of the gradient of the objective: the vector-Jacobian product of each layer's
    own logits function with its credit, and the derivative of the components that have
    parameters of their own. The latter is taken at the first sample only."""
    sample = assigned[0][0]

    def surrogate(graph: Graph) -> Float[Array, ""]:
        total = jnp.zeros(())
        for name, node in graph.conditionals.items():
            total += _credited_logits(node.layer, _seen(graph, node, name, assigned))
        for component in graph.objective:
            if component.differentiated:
                total += jnp.sum(component.value(graph, sample))
        return total / sample.batch

    return eqx.filter_grad(surrogate)(graph)


@eqx.filter_jit
def gradient_variance(
    graph: Graph, sample: Sample, estimate: Estimate
) -> dict[str, Float[Array, ""]]:
    """For each layer, the mean over its parameters of the variance of their gradient over the
    batch (population variance, as in the paper). Components with parameters of their own are
    listed too; what has no parameters is not. See `parameter_counts` to average over layers.

    Linear layers need no per-example gradients; anything else takes them one at a time.
    """
    conditionals = graph.conditionals
    components = {component.name: component for component in graph.objective}
    assigned = [(sample, estimate.credit), *estimate.others]

    def variance(name: str) -> Float[Array, ""]:
        if name not in conditionals:
            value = lambda component, sample: jnp.sum(component.value(graph, sample))
            return _per_example_variance(value, components[name], sample)
        layer, seen = conditionals[name].layer, _seen(graph, conditionals[name], name, assigned)
        if isinstance(layer.logits, Affine):
            return _affine_variance(seen)
        return _per_example_variance(_credited_logits, layer, seen)

    return {name: variance(name) for name in parameter_counts(graph)}


def parameter_counts(graph: Graph) -> dict[str, int]:
    """How many parameters each layer has, and each component with parameters of its own."""
    modules = {name: node.layer for name, node in graph.conditionals.items()}
    modules |= {part.name: part for part in graph.objective if part.differentiated}
    counts = {name: _size(module) for name, module in modules.items()}
    return {name: count for name, count in counts.items() if count}


def _size(module: PyTree) -> int:
    return sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(module, eqx.is_inexact_array)))


# What a layer saw and was credited with, in each of the samples that have credit for it.
Seen = list[tuple[Float[Array, "B I"], Float[Array, "B ..."]]]


def _seen(graph: Graph, node: Node, name: str, assigned: Sequence[tuple[Sample, Credit]]) -> Seen:
    return [
        (graph.features(sample, node.parents), jax.lax.stop_gradient(credit[name]))
        for sample, credit in assigned
        if name in credit
    ]


def _credited_logits(layer: AbstractLayer, seen: Seen) -> Float[Array, ""]:
    """Its derivative is the vector-Jacobian product of the logits with their credit."""
    parts = [jnp.vdot(credit, layer(features)) for features, credit in seen]
    return sum(parts, jnp.zeros(()))


def _affine_variance(seen: Seen) -> Float[Array, ""]:
    """The gradient of weight and bias is a sum of credit x [features, 1]: its moments are matrix
    products over the batch."""
    batch = len(seen[0][0])
    ones = jnp.ones((batch, 1))
    inputs = [jnp.concatenate([features, ones], axis=1) for features, _ in seen]
    credits = [credit.reshape(batch, -1) for _, credit in seen]
    pairs = list(zip(credits, inputs, strict=True))
    mean = sum(c.T @ x for c, x in pairs) / batch
    products = [(c * d).T @ (x * y) for c, x in pairs for d, y in pairs]
    mean_square = sum(products) / batch
    return jnp.mean(jnp.maximum(mean_square - mean**2, 0))


def _per_example_variance(
    value: Callable[[PyTree, PyTree], Float[Array, ""]], module: PyTree, examples: PyTree
) -> Float[Array, ""]:
    """From the definition, with Welford's running moments: memory of three gradients."""
    parameters = eqx.filter(module, eqx.is_inexact_array)
    zeros = jax.tree.map(jnp.zeros_like, parameters)

    def add(moments, numbered_example):
        mean, squares = moments
        count, example = numbered_example
        one = jax.tree.map(lambda array: array[None], example)
        gradient = eqx.filter_grad(value)(module, one)
        past = jax.tree.map(jnp.subtract, gradient, mean)
        mean = jax.tree.map(lambda m, p: m + p / count, mean, past)
        now = jax.tree.map(jnp.subtract, gradient, mean)
        squares = jax.tree.map(lambda s, p, n: s + p * n, squares, past, now)
        return (mean, squares), None

    batch = len(jax.tree.leaves(examples)[0])
    counts = jnp.arange(1, batch + 1)
    (_, squares), _ = jax.lax.scan(add, (zeros, zeros), (counts, examples))
    total = sum((jnp.sum(leaf) for leaf in jax.tree.leaves(squares)), jnp.zeros(()))
    return total / batch / _size(module)
