"""What would have been, had one unit taken another value and all else stayed.

Every answer is a table `[V, B, U]` of *changes* from what was: 0 at the value that the unit did
take. Changes lose fewer digits than the two large sums that they are the difference of.
"""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from .graph import Graph, Node, Sample
from .units import AbstractLayer, Affine

CANDIDATES_AT_ONCE = 16  # of the generic path: bounds its memory


def log_prob_change(graph: Graph, sample: Sample, node: Node, name: str) -> Float[Array, "V B U"]:
    """Change of the log-probability of what `node` did, for the units of its parent `name`."""
    statistic = lambda logits: node.layer.log_prob(logits, sample[node.name])
    return _layer_change(graph, sample, node, statistic, name)


def entropy_change(graph: Graph, sample: Sample, node: Node, name: str) -> Float[Array, "V B U"]:
    """Change of the entropy of `node`'s policy, for the units of its parent `name`."""
    return _layer_change(graph, sample, node, node.layer.entropy, name)


def activation_change(
    graph: Graph,
    sample: Sample,
    map: Affine,
    activation: Callable,
    parents: Sequence[str],
    name: str,
) -> Float[Array, "V B U"]:
    """Change of the summed activation of a linear map, for the units of its parent `name`."""
    statistic = lambda outputs: jnp.sum(activation(outputs), axis=-1)
    outputs = jax.vmap(map)(graph.features(sample, parents))
    return _affine_change(graph, sample, map, statistic, outputs, parents, name)


def function_change(
    function: Callable[[Float[Array, "B U *K"]], Float[Array, " B"]],
    layer: AbstractLayer,
    expanded: Float[Array, "B U *K"],
) -> Float[Array, "V B U"]:
    """Change of any function of a layer's expanded values, by evaluating it once for each value
    of each unit, `CANDIDATES_AT_ONCE` at a time."""
    units, choices = layer.units, layer.choices
    actual = function(expanded)

    def change(candidate: Int[Array, ""]) -> Float[Array, " B"]:
        unit, choice = candidate // choices, candidate % choices
        return function(layer.assign(expanded, unit, choice)) - actual

    changes = jax.lax.map(change, jnp.arange(units * choices), batch_size=CANDIDATES_AT_ONCE)
    return changes.reshape(units, choices, -1).transpose(1, 2, 0)


def _layer_change(
    graph: Graph, sample: Sample, node: Node, statistic: Callable, name: str
) -> Float[Array, "V B U"]:
    """Change of a statistic of the node's logits, for the units of its parent `name`."""
    if isinstance(node.layer.logits, Affine):
        logits = node.layer(graph.features(sample, node.parents))
        return _affine_change(
            graph, sample, node.layer.logits, statistic, logits, node.parents, name
        )
    arguments = [graph.expand(sample, parent) for parent in node.parents]
    place = node.parents.index(name)

    def statistic_of(expanded: Float[Array, "B U *K"]) -> Float[Array, " B"]:
        parts = [*arguments[:place], expanded, *arguments[place + 1 :]]
        features = [part.reshape(sample.batch, -1) for part in parts]
        return statistic(node.layer(jnp.concatenate(features, axis=1)))

    return function_change(statistic_of, graph[name].layer, arguments[place])


def _affine_change(
    graph: Graph,
    sample: Sample,
    map: Affine,
    statistic: Callable,
    outputs: Float[Array, "B ..."],
    parents: Sequence[str],
    name: str,
) -> Float[Array, "V B U"]:
    """The same where the outputs are linear in the parents: a unit's value moves them by the
    difference of two columns of the matrix. One unit at a time: the memory is that of `[V, B, O]`.
    """
    before = parents[: parents.index(name)]
    start = graph.features(sample, before).shape[1]
    layer = graph[name].layer
    effects = layer.effects(map.weight[:, start : start + layer.width])  # [V, U, O]
    taken = jnp.argmax(layer.indicator(sample[name]), axis=0)  # [B, U]
    actual = statistic(outputs)

    def change(unit: Int[Array, ""]) -> Float[Array, "V B"]:
        effect = effects[:, unit]  # [V, O]
        moves = effect[:, None] - effect[taken[:, unit]][None]  # [V, B, O]
        moved = outputs[None] + moves.reshape(-1, *outputs.shape)
        return jax.vmap(statistic)(moved) - actual[None]

    return jnp.moveaxis(jax.lax.map(change, jnp.arange(layer.units)), 0, -1)
