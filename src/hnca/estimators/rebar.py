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

REBAR's c is a scale times the components downstream at the relaxed values of z, with the means of
all that descends from the node: scale and temperature are learned, for each node. As the mean of
the credit does not depend on them, the derivative of its square is one of its variance; every call
makes a step of Adam along it, with its own sample, after using the parameters as they were.

A `Function` that jumps between a unit's choices (a threshold, say) makes the credit biased: c has
to be continuous.
"""

from abc import abstractmethod
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from ..credit import Assigned, Credit
from ..graph import Graph, Node, Sample
from ..units import at_least_single
from .base import AbstractEstimator, Values, reinforced, required, total
from .relaxed import Weights, check_temperature, concrete, downstream_at, gumbel_given, log_policy


class Tuned(NamedTuple):
    """Parameters of a control variate, and the state of their optimizer."""

    parameters: PyTree
    opt_state: PyTree


class AbstractTunedControl(AbstractEstimator):
    """REINFORCE with a control variate of the noise behind the units, which learns to lower the
    variance."""

    learning_rate: eqx.AbstractVar[float]

    @abstractmethod
    def parameters(self, graph: Graph, key: PRNGKeyArray | None) -> PyTree:
        """Those of the control variates before the first batch, by the names of the nodes."""

    @abstractmethod
    def control(
        self, parameters: PyTree, graph: Graph, sample: Sample, node: Node, perturbed: Weights
    ) -> Float[Array, " B"]:
        """c(z), the control variate of a node, from its parameters."""

    def init(self, graph: Graph, *, key: PRNGKeyArray | None = None) -> PyTree:
        """The parameters, and the state of their optimizer."""
        parameters = self.parameters(graph, key)
        return Tuned(parameters, optax.adam(self.learning_rate).init(parameters))

    def assign(
        self,
        graph: Graph,
        sample: Sample,
        values: Values,
        state: PyTree,
        key: PRNGKeyArray | None,
    ) -> tuple[Assigned, PyTree]:
        """The credit with the parameters as they are; the state has those after a step."""
        keys = jax.random.split(required(key, self), len(graph.nodes))

        def square(parameters: PyTree) -> tuple[Float[Array, ""], Credit]:
            credit: Credit = {}
            for node, each in zip(graph.nodes, keys, strict=True):
                signal = total(graph.downstream(node.name), values, sample)
                own = parameters[node.name]
                credit[node.name] = self._credit(own, graph, sample, node, signal, each)
            squares = (jnp.sum(part**2) for part in credit.values())
            return sum(squares, jnp.zeros(())) / sample.batch, credit

        slope, credit = jax.grad(square, has_aux=True)(state.parameters)
        return [(sample, credit)], self._step(state, slope)

    def _credit(
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
        _, key = jax.random.split(
            key
        )  # not the one that drew the sample, should the caller reuse it
        given = lambda logits: gumbel_given(layer, logits, taken, key)  # z~
        control = lambda perturbed: self.control(parameters, graph, sample, node, perturbed)
        value, pull = jax.vjp(control, given(logits))
        (slope,) = pull(jnp.ones_like(value))  # c'(z)
        moves = lambda logits: jnp.sum(slope * (log_policy(layer, logits) - given(logits)))
        return reinforced(layer, logits, taken, signal - value) + jax.grad(moves)(logits)

    def _step(self, state: Tuned, slope: PyTree) -> Tuned:
        """Downhill; not at all if the slope is not finite: one NaN would stay for good."""
        updates, opt_state = optax.adam(self.learning_rate).update(slope, state.opt_state)
        after = Tuned(optax.apply_updates(state.parameters, updates), opt_state)
        leaves = jax.tree.leaves(slope)
        finite = jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in leaves]))
        return jax.tree.map(lambda new, old: jnp.where(finite, new, old), after, state)


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
        relaxed = concrete(node.layer, perturbed, jnp.exp(self.log_temperature))
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
