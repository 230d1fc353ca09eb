"""What REBAR, RELAX and double control variates share: parameters of their own that learn to lower
the variance. As the mean of the credit does not depend on them, the derivative of its square is one
of its variance; every call makes a step of Adam along it, with its own sample, after using the
parameters as they were."""

from abc import abstractmethod
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from ..credit import Assigned, Credit
from ..graph import Graph, Node, Sample
from .base import AbstractEstimator, Values, required, total


class Tuned(NamedTuple):
    """Parameters of control variates, and the state of their optimizer."""

    parameters: PyTree
    opt_state: PyTree


class AbstractTuned(AbstractEstimator):
    """A method with parameters for each node, with any of which it is unbiased."""

    learning_rate: eqx.AbstractVar[float]

    @abstractmethod
    def parameters(self, graph: Graph, key: PRNGKeyArray | None) -> PyTree:
        """Those before the first batch, by the names of the nodes."""

    @abstractmethod
    def credit(
        self,
        parameters: PyTree,
        graph: Graph,
        sample: Sample,
        node: Node,
        signal: Float[Array, " B"],
        key: PRNGKeyArray,
    ) -> Float[Array, "B ..."]:
        """That of a node, from its parameters and what came of what it did."""

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
                credit[node.name] = self.credit(own, graph, sample, node, signal, each)
            squares = (jnp.sum(part**2) for part in credit.values())
            return sum(squares, jnp.zeros(())) / sample.batch, credit

        slope, credit = jax.grad(square, has_aux=True)(state.parameters)
        return [(sample, credit)], self._step(state, slope)

    def _step(self, state: Tuned, slope: PyTree) -> Tuned:
        """Downhill; not at all if the slope is not finite: one NaN would stay for good."""
        updates, opt_state = optax.adam(self.learning_rate).update(slope, state.opt_state)
        after = Tuned(optax.apply_updates(state.parameters, updates), opt_state)
        leaves = jax.tree.leaves(slope)
        finite = jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in leaves]))
        return jax.tree.map(lambda new, old: jnp.where(finite, new, old), after, state)
