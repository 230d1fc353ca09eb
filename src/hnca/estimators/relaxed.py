"""The graph at relaxed values: what the methods share that look between a unit's choices.

Relaxed values are `layer.blend(weights)`, with weights `[V, B, U]` of the choices that add up to 1
(units.py). `LogProb` is linear in those of its own node; `Entropy` follows the logits that a node
has given relaxed parents; `Linear` and `Function` are evaluated where they are. A `Reward` is not
defined there, and so is refused. A component of your own has to read nodes by `graph.expand` or
`graph.features`, as indices of categories are not what it then gets.

Three ways to weigh the choices of a unit, with log pi the log of its policy:

    indicator(values)                           a choice
    pi                                          the mean
    softmax((log pi + gumbel) / temperature)    a Concrete variable (Maddison et al. 2017), or
                                                Gumbel-softmax (Jang et al. 2017)

For two choices the last is sigmoid((logit + logistic noise) / temperature).
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Num, PRNGKeyArray

from ..credit import Credit
from ..draws import draw_gumbel
from ..graph import Graph, Node, Pick, Sample
from ..units import AbstractLayer, at_least_single

Weights = Float[Array, "V B U"]  # of the choices, or their perturbed logarithms


def log_policy(layer: AbstractLayer, logits: Float[Array, "B ..."]) -> Weights:
    """log pi(v) of every choice."""
    return jax.nn.log_softmax(layer.log_odds(logits), axis=0)


def mean(node: Node, logits: Float[Array, "B ..."]) -> Float[Array, "B U *K"]:
    """The mean values of the units: what a mean-field pass puts in their place."""
    return node.layer.mean(logits)


def downstream_at(
    graph: Graph, sample: Sample, name: str, values: Float[Array, "B U *K"], pick: Pick = mean
) -> Float[Array, " B"]:
    """Sum of the components downstream of a node, of those that can be evaluated, at relaxed values
    of it. Its descendants follow, as their means by default; all else is as in the sample. So
    nothing in it depends on what the node did, nor on what came of that."""
    moved = graph.rerun(sample, name, values, pick)
    known = [part for part in graph.downstream(name) if not part.opaque]
    return sum((part.value(graph, moved) for part in known), jnp.zeros(sample.batch))


def expansion(
    graph: Graph, sample: Sample, name: str, values: Float[Array, "B U *K"]
) -> tuple[Float[Array, " B"], Float[Array, "B U *K"]]:
    """`downstream_at` with the means of the descendants, and its derivative in the values."""
    value, pull = jax.vjp(lambda values: downstream_at(graph, sample, name, values), values)
    return value, pull(jnp.ones_like(value))[0]


def linear_credit(
    layer: AbstractLayer, logits: Float[Array, "B ..."], slope: Float[Array, "B U *K"]
) -> Float[Array, "B ..."]:
    """d E[slope . values] / d logits: of a function linear in the values, the mean is known."""
    return jax.grad(lambda logits: jnp.sum(slope * layer.mean(logits)))(logits)


def backpropagated(
    graph: Graph, sample: Sample, soft: Callable[[Node, Float[Array, "B ..."]], Array]
) -> Credit:
    """Backpropagation through the sample, as if the units' values moved with their logits like
    `soft(node, logits)`."""

    def objective(offsets: Credit) -> Float[Array, ""]:
        """The sample's objective, with values that follow offsets of their logits. What reads
        logits directly does not see the offsets: that is not influence of the values."""

        def pick(node: Node, logits: Float[Array, "B ..."]) -> Float[Array, "B U *K"]:
            moving = soft(node, logits + offsets[node.name])
            return moving + jax.lax.stop_gradient(node.layer.expand(sample[node.name]) - moving)

        return jnp.sum(graph.value(graph.forward(sample.values, pick)))

    none = {node.name: jnp.zeros_like(sample.logits[node.name]) for node in graph.nodes}
    return jax.grad(objective)(none)


def gumbel_given(
    layer: AbstractLayer,
    logits: Float[Array, "B ..."],
    values: Num[Array, "B ..."],
    key: PRNGKeyArray,
) -> Weights:
    """log pi(v) + Gumbel noise, given that the values taken are where it is largest.

    As exp(-perturbed log pi(v)) is exponential with rate pi(v), the one of the value taken is the
    smallest of them, exponential with rate 1; the others exceed it by exponentials of their own
    rates. Differentiable in the logits, with the noise held. For two choices that is REBAR's
    truncated logistic variable."""
    logits = at_least_single(logits)
    logs = log_policy(layer, logits)
    exponential = -draw_gumbel(key, logs.shape, logs.dtype)  # the logarithm of one, rate 1
    taken = layer.indicator(values)
    least = jnp.sum(jnp.where(taken > 0.5, exponential, 0), axis=0, keepdims=True)
    exceeding = jnp.logaddexp(exponential - logs, least)
    return -jnp.where(taken > 0.5, exponential, exceeding)


def noise_given(
    layer: AbstractLayer,
    logits: Float[Array, "B ..."],
    values: Num[Array, "B ..."],
    key: PRNGKeyArray,
) -> Weights:
    """The Gumbel noise behind the values taken: what was added to log pi(v) to draw them."""
    logs = log_policy(layer, at_least_single(logits))
    return jax.lax.stop_gradient(gumbel_given(layer, logits, values, key) - logs)


def concrete(
    layer: AbstractLayer, perturbed: Weights, temperature: ArrayLike
) -> Float[Array, "B U *K"]:
    """The relaxed values of perturbed logarithms of the policy."""
    return layer.blend(jax.nn.softmax(perturbed / temperature, axis=0))


def check_temperature(who: str, temperature: float) -> None:
    """Refuses one that is not above 0."""
    if not temperature > 0:
        raise ValueError(f"{who}: temperature must be above 0, not {temperature}")
