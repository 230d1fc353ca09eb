"""From credit to gradients: d objective / d logit in, d objective / d parameter out."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from .graph import AbstractComponent, Graph, Node, Sample
from .units import AbstractLayer, Affine, Readout, at_least_single

PARAMETERS_AT_ONCE = 2**22  # in all the per-example gradients that are in memory together

Credit = dict[str, Float[Array, "B ..."]]  # by the layer's name, in the shape of its logits

# The sample's credit, and that of other samples if any, of which an example may have several.
Assigned = Sequence[tuple[Sample, dict[str, Float[Array, "_ ..."]]]]


class Estimate(NamedTuple):
    """What an estimator makes of a sample.

    >>> estimate, _ = hnca.Reinforce()(graph, sample, hnca.Reinforce().init(graph))
    >>> estimate.credit["h1"].shape, estimate.grads["h1"].layer.logits.weight.shape
    ((5, 3), (3, 6))
    """

    credit: Credit  # estimate of d objective / d logit, per example, direct dependence included
    grads: Graph  # a pytree like the graph: batch mean of the objective's gradient, uphill
    value: Float[Array, " B"]  # of the estimator's objective, for the sample
    # Further samples of a method that credits them, too (loo-independent): k of them for each
    # example make one batch of k B, in which those of an example are neighbours. The gradient is
    # then the sum over all samples, and `credit` no more than the sample's own share of it.
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


def gradients(graph: Graph, assigned: Assigned) -> Graph:
    """Batch mean of the gradient of the objective: the vector-Jacobian product of each layer's
    own logits function with its credit, and the derivative of the components that have
    parameters of their own. The latter is taken at the first sample only."""
    sample = assigned[0][0]

    def surrogate(graph: Graph) -> Float[Array, ""]:
        total = jnp.zeros(())
        for owner, places in _places(graph).items():
            total += _credited_logits(places[owner].layer, _seen(graph, places, assigned))
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
    batch (population variance, as in the paper). A layer in several places is listed once, by the
    name of its owner. Components with parameters of their own are listed too; what has no
    parameters is not. See `parameter_counts` to average over layers.

    Linear maps need no per-example gradients, nor do they on top of a `Readout`'s features;
    anything else takes them, a few at a time.

    >>> estimate, _ = hnca.Reinforce()(graph, sample, hnca.Reinforce().init(graph))
    >>> sorted(hnca.gradient_variance(graph, sample, estimate))
    ['h1', 'p:h1', 'p:x']
    """
    layers, means = _places(graph), estimate.grads.conditionals
    components = {component.name: component for component in graph.objective}
    parts = {component.name: component for component in estimate.grads.objective}
    assigned = [(sample, estimate.credit), *estimate.others]

    def variance(name: str) -> Float[Array, ""]:
        if name not in layers:
            weight = (estimate.weights or {}).get(name)
            return _component_variance(graph, components[name], sample, weight, parts[name])
        seen = _by_example(_seen(graph, layers[name], assigned), sample.batch)
        return _layer_variance(layers[name][name].layer, seen, means[name].layer)

    return {name: variance(name) / count for name, count in parameter_counts(graph).items()}


def parameter_counts(graph: Graph) -> dict[str, int]:
    """How many parameters each layer has, by the name of its owner if it is in several places,
    and each component with parameters of its own.

    >>> hnca.parameter_counts(graph)
    {'h1': 21, 'p:x': 24, 'p:h1': 3}
    """
    modules = {name: places[name].layer for name, places in _places(graph).items()}
    modules |= {part.name: part for part in graph.objective if part.has_parameters}
    counts = {name: _size(module) for name, module in modules.items()}
    return {name: count for name, count in counts.items() if count}


def _size(module: PyTree) -> int:
    return sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(module, eqx.is_inexact_array)))


# What a layer saw and was credited with: a pair for each batch of samples that credits it.
Seen = list[tuple[Float[Array, "_ I"], Float[Array, "_ ..."]]]
SeenByExample = list[tuple[Float[Array, "B _ I"], Float[Array, "B _ ..."]]]


def _places(graph: Graph) -> dict[str, dict[str, Node]]:
    """For each layer, by the name of its owner, all places that it stands in."""
    places: dict[str, dict[str, Node]] = {}
    for name, node in graph.conditionals.items():
        places.setdefault(node.owner or name, {})[name] = node
    return places


def _seen(graph: Graph, places: Mapping[str, Node], assigned: Assigned) -> Seen:
    """What a layer saw in all its places: to its gradient, so many samples of an example, which
    are neighbours in the batch."""

    def joined(arrays: list[Float[Array, "_ ..."]]) -> Float[Array, "_ ..."]:
        return jnp.stack(arrays, 1).reshape(-1, *arrays[0].shape[1:]) if arrays[1:] else arrays[0]

    seen = []
    for sample, credit in assigned:
        names = [name for name in places if name in credit]
        features = [graph.features(sample, places[name].parents) for name in names]
        credits = [jax.lax.stop_gradient(credit[name]) for name in names]
        seen += [(joined(features), joined(credits))] if names else []
    return seen


def _by_example(seen: Seen, batch: int) -> SeenByExample:
    """The same with an axis for the examples, and one for the samples of an example."""
    split = lambda array: array.reshape(batch, len(array) // batch, *array.shape[1:])
    return jax.tree.map(split, seen)


def _credited_logits(layer: AbstractLayer, seen: Seen) -> Float[Array, ""]:
    """Its derivative is the vector-Jacobian product of the logits with their credit."""
    parts = [jnp.vdot(credit, layer(features)) for features, credit in seen]
    return sum(parts, jnp.zeros(()))


def _layer_variance(
    layer: AbstractLayer, seen: SeenByExample, mean: AbstractLayer
) -> Float[Array, ""]:
    """The variance of the gradient, summed over the layer's parameters."""
    logits, mean_logits = layer.logits, mean.logits
    if type(logits) is Affine:  # a subclass may be another map
        return _affine_variance(seen, mean_logits)
    if type(logits) is Readout:
        features_of = jax.vmap(jax.vmap(logits.features))
        through = [(features_of(inputs), credit) for inputs, credit in seen]
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


def _affine_variance(seen: SeenByExample, mean: PyTree) -> Float[Array, ""]:
    """The variance of a linear map's gradient, without the gradients of the examples.

    With y = [x, 1] the features and the bias's 1, and c the credit, an example's gradient of
    weight and bias is G = sum_s c_s (x) y_s over its samples s. Mean square less square of mean
    would cancel where G varies little. So centre first: with C_s, Y_s the batch means of c_s, y_s
    and dc_s, dy_s the deviations from them,

        G  =  D + M,   D = sum_s dc_s (x) y_s + C_s (x) dy_s,   M = sum_s C_s (x) Y_s

    M is the same for all examples, and the mean of G is the gradient g that is there anyway:

        variance  =  mean |D|^2 - |mean D|^2  =  mean |D|^2 - |g - M|^2

    The inner product of two outer products is the product of their factors' inner products:

        |D|^2  =  sum_st  <dc_s, dc_t> <y_s, y_t> + 2 <dc_s, C_t> <y_s, dy_t>
                          + <C_s, C_t> <dy_s, dy_t>

    The 1 in y does not vary: <y_s, y_t> = <x_s, x_t> + 1, <y_s, dy_t> = <x_s, dx_t>, and so on.
    """
    parts = [(inputs, credit.reshape(*credit.shape[:2], -1)) for inputs, credit in seen]
    joined = (jnp.concatenate(arrays, axis=1) for arrays in zip(*parts, strict=True))
    x, c = map(at_least_single, joined)  # [B, S, I], [B, S, O]
    mean_x, mean_c = (jnp.mean(array, axis=0, keepdims=True) for array in (x, c))
    dx, dc = x - mean_x, c - mean_c
    inner = lambda a, b: jnp.matmul(a, b.mT, precision="highest")  # [B, S, S], or B = 1
    squares = inner(dc, dc) * (inner(x, x) + 1) + 2 * inner(dc, mean_c) * inner(x, dx)
    squares += inner(mean_c, mean_c) * inner(dx, dx)
    shift = jnp.sum(mean_c[0, :, :, None] * mean_x[0, :, None], axis=0)  # M, of the weight
    square_of_mean = jnp.sum((mean.weight - shift) ** 2)  # for the bias, the mean of D is 0
    return jnp.maximum(jnp.sum(squares) / len(x) - square_of_mean, 0)


def _component_variance(
    graph: Graph,
    component: AbstractComponent,
    sample: Sample,
    weight: Float[Array, " B"] | None,
    mean: AbstractComponent,
) -> Float[Array, ""]:
    """The same for the parameters of a component, which may have a weight."""

    def value(component: AbstractComponent, example: tuple[Sample, PyTree]) -> Float[Array, ""]:
        sample, weight = jax.tree.map(lambda array: array[None], example)
        found = component.value(graph, sample)
        return jnp.sum(found) if weight is None else jnp.vdot(weight, found)

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
        gradient = eqx.filter_grad(value)(module, example)
        distances = jax.tree.map(jnp.subtract, gradient, eqx.filter(mean, eqx.is_inexact_array))
        return sum((jnp.sum(leaf**2) for leaf in jax.tree.leaves(distances)), jnp.zeros(()))

    at_once = max(1, PARAMETERS_AT_ONCE // max(1, _size(module)))
    return jnp.mean(jax.lax.map(squared_distance, examples, batch_size=at_once))
