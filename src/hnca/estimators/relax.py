"""RELAX (Grathwohl et al. 2018): REBAR with a free-form network in its control variate.

The derivation is REBAR's (rebar.py), which holds for any continuous c(z). Here

    c(z)  =  REBAR's, of the components that can be evaluated  +  r(z, parents)

with r a network for each node, of one hidden layer: its inputs are the relaxed values of z at
temperature 1, and the values of the node's parents, which the node's own noise does not change. It
starts as 0, and so the method as REBAR; a step of Adam on the variance trains all of it. What can
only be observed, a `Reward`, is no part of the relaxed objective: there the network is alone.
"""

from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from ..graph import Graph, Node, Sample
from ..units import Affine
from .rebar import AbstractTunedControl, Scaled
from .relaxed import Weights, check_temperature, concrete


class ControlNetwork(NamedTuple):
    """One hidden layer, one output."""

    hidden: Affine
    output: Affine

    def __call__(self, features: Float[Array, "B I"]) -> Float[Array, " B"]:
        return jax.vmap(self.output)(jnp.tanh(jax.vmap(self.hidden)(features)))[:, 0]


class FreeForm(NamedTuple):
    """The control variate of a node."""

    scaled: Scaled
    network: ControlNetwork


class Relax(AbstractTunedControl):
    """RELAX: REINFORCE with a network, and the objective at relaxed values, as control variate.
    `units` are the network's hidden units; `temperature` is where it starts from.

    >>> estimator = hnca.Relax()
    >>> estimate, _ = estimator(graph, sample, estimator.init(graph, key=key), key=key)
    >>> estimate.credit["h1"].shape
    (5, 3)
    """

    units: int = eqx.field(default=10, static=True)
    temperature: float = eqx.field(default=0.5, static=True)
    learning_rate: float = eqx.field(default=1e-3, static=True)
    unbiased: ClassVar[bool] = True
    needs_objective: ClassVar[bool] = False

    def __check_init__(self):
        check_temperature("Relax", self.temperature)

    def parameters(self, graph: Graph, key: PRNGKeyArray | None) -> PyTree:
        if key is None:
            raise ValueError("Relax draws a network for each node: pass key= to init")
        keys = jax.random.split(key, len(graph.nodes))
        return {
            node.name: FreeForm(Scaled.start(self.temperature), self._network(node, each))
            for node, each in zip(graph.nodes, keys, strict=True)
        }

    def _network(self, node: Node, key: PRNGKeyArray) -> ControlNetwork:
        first, second = jax.random.split(key)
        hidden = Affine(node.layer.width + node.layer.inputs, self.units, key=first)
        output = jax.tree.map(jnp.zeros_like, Affine(self.units, 1, key=second))
        return ControlNetwork(hidden, output)

    def control(
        self, parameters: PyTree, graph: Graph, sample: Sample, node: Node, perturbed: Weights
    ) -> Float[Array, " B"]:
        relaxed = concrete(node.layer, perturbed, 1).reshape(sample.batch, -1)
        features = jnp.concatenate([relaxed, graph.features(sample, node.parents)], axis=1)
        known = parameters.scaled.control(graph, sample, node, perturbed)
        return known + parameters.network(features)
