"""REBAR (Tucker et al. 2017): a Concrete relaxation as control variate, tuned as it goes.

Derivation. Take a node, given its parents. Its values b are where z = log pi + Gumbel noise is
largest (relaxed.py). Let c(z) be any function that depends on nothing else of what the node or its
descendants did. Its mean can be written in two ways,

    E[c(z)]  =  E[ E[c(z~) | b] ],     z~ drawn given b

and so can the derivative of the mean: with the noise behind z held on the left, with the noise
behind z~ given b held on the right, where b's own distribution moves as well,

    E[dc(z)/dlogits]  =  E[ c(z~) score  +  dc(z~)/dlogits ],     score = d log pi(b) / d logits

(The left and the second on the right need c to be continuous.) So for what came downstream, f,

    credit  =  score x (f - c(z~))  +  dc(z)/dlogits  -  dc(z~)/dlogits

has the expectation of score x f, whatever c is. Each term depends on z or on z~, never on both, so
they may share their noise: here z~ = z, and the two differ only in how they move with the logits.
That leaves  score x (f - c(z)) + c'(z) (dz/dlogits - dz~/dlogits), one evaluation of c.

c may depend on the logits themselves as well: what c does as they move, with z held, has the same
mean on both sides, and with z~ = z it drops out.

REBAR's c is a scale times the components downstream at the relaxed values of z, with the means of
all that descends from the node. At temperature T these are, by Section 3.3 of its paper,

    softmax( (log pi + noise) / T  +  T / (T + 1) log pi )

which are the choice itself as T goes to 0, as Concrete variables are, and the mean as T goes to
infinity, where those are half-way between all choices: c is then a baseline, the objective at the
mean. Scale and temperature are learned, for each node (tuned.py).

A `Function` that jumps between a unit's choices (a threshold, say) makes the credit biased: c has
to be continuous.
"""

from abc import abstractmethod
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from ..graph import Graph, Node, Sample
from ..units import at_least_single
from .base import reinforced
from .relaxed import Weights, check_temperature, concrete, downstream_at, gumbel_given, log_policy
from .tuned import AbstractTuned


class AbstractTunedControl(AbstractTuned):
    """REINFORCE with a control variate of the noise behind the units."""

    @abstractmethod
    def control(
        self, parameters: PyTree, graph: Graph, sample: Sample, node: Node, perturbed: Weights
    ) -> Float[Array, " B"]:
        """c(z), the control variate of a node, from its parameters."""

    def credit(
        self,
        parameters: PyTree,
        graph: Graph,
        sample: Sample,
        node: Node,
        signal: Float[Array, " B"],
        key: PRNGKeyArray,
    ) -> Float[Array, "B ..."]:
        layer, taken = node.layer, sample[node.name]
        logits = at_least_single(sample.logits[node.name])
        _, key = jax.random.split(key)  # not the one that drew the sample, if the caller reuses it
        given = lambda logits: gumbel_given(layer, logits, taken, key)  # z~
        control = lambda perturbed: self.control(parameters, graph, sample, node, perturbed)
        value, pull = jax.vjp(control, given(logits))
        (slope,) = pull(jnp.ones_like(value))  # c'(z)
        moves = lambda logits: jnp.sum(slope * (log_policy(layer, logits) - given(logits)))
        return reinforced(layer, logits, taken, signal - value) + jax.grad(moves)(logits)


class Scaled(NamedTuple):
    """How much of the relaxed objective to subtract, and at which temperature."""

    scale: Float[Array, ""]
    log_temperature: Float[Array, ""]

    @staticmethod
    def start(temperature: float) -> "Scaled":
        return Scaled(jnp.ones(()), jnp.log(jnp.asarray(temperature, float)))

    def control(
        self, graph: Graph, sample: Sample, node: Node, perturbed: Weights
    ) -> Float[Array, " B"]:
        temperature = jnp.exp(self.log_temperature)
        logs = log_policy(node.layer, at_least_single(sample.logits[node.name]))
        towards_mean = perturbed + temperature**2 / (temperature + 1) * logs
        relaxed = concrete(node.layer, towards_mean, temperature)
        return self.scale * downstream_at(graph, sample, node.name, relaxed)


class Rebar(AbstractTunedControl):
    """REBAR: REINFORCE with the objective at relaxed values as control variate. `temperature` is
    where it starts from.

    >>> estimator = hnca.Rebar(temperature=0.5)
    >>> estimate, _ = estimator(graph, sample, estimator.init(graph, key=key), key=key)
    >>> estimate.credit["h1"].shape
    (5, 3)
    """

    temperature: float = eqx.field(default=0.5, static=True)
    learning_rate: float = eqx.field(default=1e-3, static=True)
    unbiased: ClassVar[bool] = True
    needs_objective: ClassVar[bool] = True

    def __check_init__(self):
        check_temperature("Rebar", self.temperature)

    def parameters(self, graph: Graph, key: PRNGKeyArray | None) -> PyTree:
        return {name: Scaled.start(self.temperature) for name in graph.node_names}

    def control(
        self, parameters: PyTree, graph: Graph, sample: Sample, node: Node, perturbed: Weights
    ) -> Float[Array, " B"]:
        return parameters.control(graph, sample, node, perturbed)
