"""What every estimator is: a way to assign credit to the logits of the nodes."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray, PyTree

from ..credit import Assigned, Estimate, added, gradients
from ..graph import AbstractComponent, Graph, Node, Sample
from ..kernels.settled import settled
from ..units import AbstractLayer, Bernoulli
from ..validation import checked_weights
from ..weights import Weights, scaled, unweighted, weighted
from .objectives import AbstractObjective, ExpectedSum

Values = Mapping[str, Float[Array, " B"]]  # of components, by their names


class AbstractEstimator(eqx.Module):
    """Estimates the gradient of the expected objective from a sample.

    A method fills in `init` and `assign`; the rest is the same for all of them, but for those that
    climb another `objective` than the expected sum of the graph's components.

    >>> estimator = hnca.Reinforce()
    >>> state = estimator.init(graph)
    >>> estimate, state = estimator(graph, sample, state)
    >>> estimator.unbiased, estimator.needs_objective
    (True, False)
    """

    unbiased: eqx.AbstractVar[bool]
    needs_objective: eqx.AbstractVar[bool]  # needs the objective as a function, not its value

    @property
    def objective(self) -> AbstractObjective:
        """What the estimates are gradients of, and `estimate.value` is the value of."""
        return ExpectedSum()

    @abstractmethod
    def init(self, graph: Graph, *, key: PRNGKeyArray | None = None) -> PyTree:
        """The state before the first batch (baselines). A method with parameters of its own draws
        them from `key`, and asks for it; the others do without."""

    @abstractmethod
    def assign(
        self,
        graph: Graph,
        sample: Sample,
        values: Values,
        state: PyTree,
        key: PRNGKeyArray | None,
    ) -> tuple[Assigned, PyTree]:
        """The credit of every node for its influence on the objective, given the `values` of the
        components; direct dependence on parameters is not its concern. First that of the sample;
        a method that draws others, whose nodes have other parents' values, adds theirs."""

    def divisors(self, state: PyTree) -> dict[str, Float[Array, ""]]:
        """By the names of nodes, what all of their credit is divided by, where it is anything: a
        method that has some is biased, if only in the length of each layer's gradient."""
        return {}

    def __call__(
        self,
        graph: Graph,
        sample: Sample,
        state: PyTree,
        *,
        reward: ArrayLike | Mapping[str, ArrayLike] | None = None,
        key: PRNGKeyArray | None = None,
        weights: Weights | None = None,
    ) -> tuple[Estimate, PyTree]:
        """One estimate, and the state for the next one. With `weights`, of the objective that
        `graph.value` has with them. An example's weight, an array `[B]`, multiplies its credit:
        one of weight 0 has none, and baselines track what they would without weights."""
        weights = jax.tree.map(_traced, weights)
        return self._estimate(graph, sample, state, reward, key, weights)

    @eqx.filter_jit
    def _estimate(
        self,
        graph: Graph,
        sample: Sample,
        state: PyTree,
        reward: ArrayLike | Mapping[str, ArrayLike] | None,
        key: PRNGKeyArray | None,
        weights: Weights | None,
    ) -> tuple[Estimate, PyTree]:
        if self.needs_objective:
            _refuse_opaque(graph, self)
        _refuse_foreign_state(graph, self, state)
        checked = checked_weights(weights, list(graph.structure.inputs), sample.batch)
        counted = weighted(graph, checked)
        # Credit reads them unit by unit: they are not to be computed as often.
        values = settled(graph.component_values(sample, reward))
        counted_values = values | {name: w * values[name] for name, w in checked.items()}
        if weights is None or isinstance(weights, Mapping):
            assigned, after = self.assign(counted, sample, counted_values, state, key)
            value = self._value(counted, sample, counted_values, assigned)
        else:
            assigned, after = self.assign(graph, sample, values, state, key)
            of_example = jnp.broadcast_to(jnp.asarray(weights, float), (sample.batch,))
            value = of_example * self._value(graph, sample, values, assigned)
            assigned = [(each, scaled(credit, of_example)) for each, credit in assigned]
        (_, influence), *others = jax.lax.stop_gradient(assigned)
        direct = jax.lax.stop_gradient(self.objective.direct_credit(counted, sample))
        credit = added(influence, direct)
        credit |= {name: credit[name] / by for name, by in self.divisors(state).items()}
        grads = unweighted(gradients(counted, [(sample, credit), *others]))
        estimate = Estimate(credit, grads, value, tuple(others), checked or None)
        return estimate, jax.lax.stop_gradient(after)

    def _value(
        self, graph: Graph, sample: Sample, values: Values, assigned: Assigned
    ) -> Float[Array, " B"]:
        others = [each for each, _ in assigned[1:]]
        return self.objective.value(graph, values, sample, others)


def _traced(leaf: ArrayLike) -> ArrayLike:
    """A number as an array: else it would be compiled in, and every new one anew."""
    return jnp.asarray(leaf, float) if isinstance(leaf, int | float) else leaf


def total(
    components: Iterable[AbstractComponent], values: Values, sample: Sample
) -> Float[Array, " B"]:
    """Sum of the values of these components."""
    return sum((values[part.name] for part in components), jnp.zeros(sample.batch))


def reinforced(
    layer: AbstractLayer, logits: Array, values: Array, gain: Float[Array, " B"]
) -> Float[Array, "B ..."]:
    """All credit to what the units did: d log pi(values) / d logits x gain."""
    return layer.expected_score(logits, layer.indicator(values) * gain[None, :, None])


def downstream_value(graph: Graph, sample: Sample, name: str) -> Float[Array, " B"]:
    """Sum of the components downstream of a node, in another sample."""
    components = graph.downstream(name)
    values = {component.name: component.value(graph, sample) for component in components}
    return total(components, values, sample)


def drawn_anew(
    graph: Graph, sample: Sample, node: Node, key: PRNGKeyArray
) -> tuple[Array, Float[Array, " B"]]:
    """Other values of a node from its own policy, all that descends from it drawn anew as well; and
    the components downstream that come of them."""
    own, below = jax.random.split(key)
    taken = node.layer.sample(sample.logits[node.name], own)
    again = graph.resample(below, sample, node.name, taken)
    return taken, downstream_value(graph, again, node.name)


def required(key: PRNGKeyArray | None, estimator: AbstractEstimator) -> PRNGKeyArray:
    """The key of an estimator that draws samples of its own."""
    if key is None:
        raise ValueError(f"{type(estimator).__name__} draws samples of its own: pass key=")
    return key


def bernoulli_nodes(graph: Graph, estimator: AbstractEstimator) -> Iterator[tuple[Node, Bernoulli]]:
    """The nodes with their layers, for a method that is for Bernoulli units only."""
    for node in graph.nodes:
        if type(node.layer) is not Bernoulli:  # a subclass may have another policy
            method = type(estimator).__name__
            raise ValueError(f"{method} is for Bernoulli units; node '{node.name}' has others")
        yield node, node.layer


def _refuse_opaque(graph: Graph, estimator: AbstractEstimator) -> None:
    """What can only be observed cannot be evaluated for another sample."""
    for component in graph.objective:
        if component.opaque:
            raise ValueError(
                f"{type(estimator).__name__} needs the objective as a function, but"
                f" Reward '{component.name}' is known only for what was done;"
                " use a method that needs no more than that, as hnca and reinforce do"
            )


def _refuse_foreign_state(graph: Graph, estimator: AbstractEstimator, state: PyTree) -> None:
    init = lambda key: estimator.init(graph, key=key)
    wanted = jax.tree.structure(jax.eval_shape(init, jax.random.key(0)))
    if jax.tree.structure(state) != wanted:
        method = type(estimator).__name__
        raise ValueError(f"{method}: this state is not from its own init(graph), for this graph")
