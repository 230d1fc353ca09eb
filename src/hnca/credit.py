"""From credit to gradients: d objective / d logit in, d objective / d parameter out."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from .graph import AbstractComponent, Graph, Node, Sample
from .units import AbstractLayer, Affine, Readout

PARAMETERS_AT_ONCE = 2**22  # in all the per-example gradients that are in memory together

Credit = dict[str, Float[Array, "B ..."]]  # by the layer's name, in the shape of its logits


class Estimate(NamedTuple):
    """What an estimator makes of a sample."""

    credit: Credit  # estimate of d objective / d logit, per example, direct dependence included
    grads: Graph  # a pytree like the graph: batch mean of the objective's gradient, uphill
    value: Float[Array, " B"]  # the objective of the sample
    # Further samples of a method that credits them, too (loo-independent). The gradient is then
    # the sum over all samples, and `credit` no more than the sample's own share of it.
    others: tuple[tuple[Sample, Credit], ...] = ()
    weights: dict[str, Float[Array, " B"]] | None = None  # of components, by their names


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
            if component.has_parameters:
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

    Linear maps need no per-example gradients, nor do they on top of a `Readout`'s features;
    anything else takes them, a few at a time.
    """
    conditionals, means = graph.conditionals, estimate.grads.conditionals
    components = {component.name: component for component in graph.objective}
    parts = {component.name: component for component in estimate.grads.objective}
    assigned = [(sample, estimate.credit), *estimate.others]

    def variance(name: str) -> Float[Array, ""]:
        if name not in conditionals:
            weight = (estimate.weights or {}).get(name)
            return _component_variance(graph, components[name], sample, weight, parts[name])
        node = conditionals[name]
        seen = _seen(graph, node, name, assigned)
        return _layer_variance(node.layer, seen, means[name].layer)

    return {name: variance(name) / count for name, count in parameter_counts(graph).items()}


def parameter_counts(graph: Graph) -> dict[str, int]:
    """How many parameters each layer has, and each component with parameters of its own."""
    modules = {name: node.layer for name, node in graph.conditionals.items()}
    modules |= {part.name: part for part in graph.objective if part.has_parameters}
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


def _layer_variance(layer: AbstractLayer, seen: Seen, mean: AbstractLayer) -> Float[Array, ""]:
    """The variance of the gradient, summed over the layer's parameters."""
    logits, mean_logits = layer.logits, mean.logits
    if isinstance(logits, Affine):
        return _affine_variance(seen, mean_logits)
    if isinstance(logits, Readout):
        through = [(jax.vmap(logits.features)(features), credit) for features, credit in seen]
        below = _per_example_variance(
            lambda features, seen: _credited_logits(eqx.tree_at(_features, layer, features), seen),
            logits.features,
            seen,
            mean_logits.features,
        )
        return below + _affine_variance(through, mean_logits.affine)
    return _per_example_variance(_credited_logits, layer, seen, mean)


def _features(layer: AbstractLayer) -> PyTree:
    return layer.logits.features  # pyright: ignore[reportFunctionMemberAccess]


def _affine_variance(seen: Seen, mean: PyTree) -> Float[Array, ""]:
    """An example's gradient of weight and bias is a sum of credit x [features, 1]; the inner
    product of two such outer products is the product of their factors' inner products. The
    variance is the mean square, less the square of the mean."""
    batch = len(seen[0][0])
    pairs = [(credit.reshape(batch, -1), features) for features, credit in seen]
    inner = lambda a, b: jnp.sum(a * b, axis=1)
    squares = [inner(c, d) * (inner(x, y) + 1) for c, x in pairs for d, y in pairs]
    square_of_mean = sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(mean))
    return jnp.maximum(jnp.mean(sum(squares)) - square_of_mean, 0)


def _component_variance(
    graph: Graph,
    component: AbstractComponent,
    sample: Sample,
    weight: Float[Array, " B"] | None,
    mean: AbstractComponent,
) -> Float[Array, ""]:
    """The same for the parameters of a component, which may have a weight."""
    if weight is None:
        value = lambda component, sample: jnp.sum(component.value(graph, sample))
        return _per_example_variance(value, component, sample, mean)
    value = lambda component, pair: jnp.vdot(pair[1], component.value(graph, pair[0]))
    return _per_example_variance(value, component, (sample, weight), mean)


def _per_example_variance(
    value: Callable[[PyTree, PyTree], Float[Array, ""]],
    module: PyTree,
    examples: PyTree,
    mean: PyTree,
) -> Float[Array, ""]:
    """The same from the definition: squared distances of the examples' gradients from their mean,
    of no more examples at a time than fit into a few megabytes."""

    def squared_distance(example) -> Float[Array, ""]:
        one = jax.tree.map(lambda array: array[None], example)
        gradient = eqx.filter_grad(value)(module, one)
        distances = jax.tree.map(jnp.subtract, gradient, eqx.filter(mean, eqx.is_inexact_array))
        return sum((jnp.sum(leaf**2) for leaf in jax.tree.leaves(distances)), jnp.zeros(()))

    at_once = max(1, PARAMETERS_AT_ONCE // max(1, _size(module)))
    return jnp.mean(jax.lax.map(squared_distance, examples, batch_size=at_once))
