"""What is subtracted from a learning signal to centre it."""

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from .graph import AbstractComponent, Graph, Node, Sample
from .units import Affine, at_least_single


class View:
    """What the baseline of a node may see of a sample: all that does not descend from the node.
    What the node and its descendants did is not in it.

    >>> view = hnca.View(graph, graph["h1"], sample, key)
    >>> view.parents.shape, list(view.context)
    ((5, 6), ['x'])
    """

    def __init__(self, graph: Graph, node: Node, sample: Sample, key: PRNGKeyArray | None = None):
        self.graph, self.node, self._sample, self._key = graph, node, sample, key
        self._fresh: dict[int, list[Sample]] = {}  # by how many there are

    @cached_property
    def _known(self) -> Sample:
        name, sample = self.node.name, self._sample
        hidden = {name, *self.graph.structure.descendants(name)}
        values = {each: array for each, array in sample.values.items() if each not in hidden}
        logits = {each: array for each, array in sample.logits.items() if each in values}
        logits[name] = sample.logits[name]  # they follow from the parents' values
        return Sample(values, logits, jnp.zeros(sample.batch))

    @property
    def parents(self) -> Float[Array, "B I"]:
        """The values of the node's parents side by side, as its layer takes them."""
        return self.graph.features(self._known, self.node.parents)

    @property
    def context(self) -> dict[str, Array]:
        """The context arrays, as they were given."""
        return {name: self._known[name] for name in self.graph.context_names}

    def draw(self, key: PRNGKeyArray) -> Sample:
        """A fresh value of the node from its own policy, and fresh ones of all that descends."""
        own, below = jax.random.split(key)
        value = self.node.layer.sample(self._known.logits[self.node.name], own)
        return self.graph.resample(below, self._known, self.node.name, value)

    def fresh(self, count: int) -> list[Sample]:
        """So many draws; the same whenever one asks."""
        if self._key is None:
            name = self.node.name
            raise ValueError(f"the baseline of '{name}' draws samples of its own: pass key=")
        if count not in self._fresh:
            own = jax.random.fold_in(self._key, self.graph.structure.place[self.node.name])
            self._fresh[count] = [self.draw(key) for key in jax.random.split(own, count)]
        return self._fresh[count]


class AbstractBaseline(eqx.Module):
    """A number for each example that does not depend on what a node did, or on what came of it.

    No bias comes of it, on any route. Let W be all that does not descend from a unit, and
    P(v | W, S) how likely it is to have taken v, given W and what the children S did (REINFORCE:
    given what it did itself). The mean of that given W is pi(v). So for every b that is a function
    of W and of draws of its own,

        E[ sum_v P(v | W, S) b d log pi(v) | W, b ]  =  b sum_v pi(v) d log pi(v)  =  0

    HNCA's weights are this P(v | W, S), whether S are the children that lead to a component or all
    of them: what lies between the unit and one of S leads there too, and so begins in S.
    """

    needs_objective: eqx.AbstractClassVar[bool]  # as a function, not only its value

    @abstractmethod
    def init(self, node: Node, *, key: PRNGKeyArray | None = None) -> PyTree:
        """The state before the first batch, for one route to a node. `key` is for parameters: the
        same for all routes, each of which has a baseline of its own."""

    @abstractmethod
    def value(
        self, state: PyTree, view: View, components: Sequence[AbstractComponent]
    ) -> Float[Array, "#B"] | Float[Array, ""]:
        """What to subtract from the sum of these components: a number, or one for each example."""

    @abstractmethod
    def update(self, state: PyTree, view: View, signal: Float[Array, " B"]) -> PyTree:
        """The state for the next batch, after a batch with this learning signal."""

    @property
    def unbiased(self) -> bool:
        """Not where credit is divided by something."""
        return True

    def divisors(self, states: Mapping[str, Sequence[PyTree]]) -> dict[str, Float[Array, ""]]:
        """What all credit of a node is divided by, for each of the nodes with the states of its
        routes. By default it is not divided."""
        return {}


def as_baseline(baseline: object) -> AbstractBaseline:
    """The baseline of a method that may have one."""
    if baseline is None:
        return NoBaseline()
    if not isinstance(baseline, AbstractBaseline):
        raise TypeError(
            f"baseline must be one, as in hnca.MovingAverage(), not {baseline!r};"
            " by name there are methods with theirs: make_estimator('hnca+loo')"
        )
    return baseline


class NoBaseline(AbstractBaseline):
    """Subtracts nothing."""

    needs_objective: ClassVar[bool] = False

    def init(self, node: Node, *, key: PRNGKeyArray | None = None) -> PyTree:
        return ()

    def value(
        self, state: PyTree, view: View, components: Sequence[AbstractComponent]
    ) -> Float[Array, ""]:
        return jnp.zeros(())

    def update(self, state: PyTree, view: View, signal: Float[Array, " B"]) -> PyTree:
        return ()


class MovingAverage(AbstractBaseline):
    """Exponential moving average of the signal's batch mean, from 0, updated after use. A mean
    that is not finite is passed over: one NaN would stay in the average for good.

    >>> estimator = hnca.Reinforce(hnca.MovingAverage(0.9))
    >>> _, state = estimator(graph, sample, estimator.init(graph))
    >>> state["h1"].shape  # one number, for each layer
    ()
    """

    decay: int | float = eqx.field(default=0.99, static=True)
    needs_objective: ClassVar[bool] = False

    def __check_init__(self):
        _check_decay(self)

    def init(self, node: Node, *, key: PRNGKeyArray | None = None) -> PyTree:
        return jnp.zeros(())

    def value(
        self, state: PyTree, view: View, components: Sequence[AbstractComponent]
    ) -> Float[Array, ""]:
        return state

    def update(self, state: PyTree, view: View, signal: Float[Array, " B"]) -> PyTree:
        return _moved(self.decay, state, signal)


class Resampled(AbstractBaseline):
    """What comes of other draws of the node and of all that descends from it, given the same
    parents' values: the mean over so many `samples` (leave-one-out).

    >>> hnca.HNCA(hnca.Resampled(samples=2)).needs_objective  # it asks for other samples
    True
    """

    samples: int = eqx.field(default=1, static=True)
    needs_objective: ClassVar[bool] = True

    def __check_init__(self):
        if self.samples < 1:
            raise ValueError(f"Resampled: needs at least 1 sample, not {self.samples}")

    def init(self, node: Node, *, key: PRNGKeyArray | None = None) -> PyTree:
        return ()

    def value(
        self, state: PyTree, view: View, components: Sequence[AbstractComponent]
    ) -> Float[Array, " B"]:
        drawn = view.fresh(self.samples)
        values = [part.value(view.graph, each) for each in drawn for part in components]
        return sum(values, jnp.zeros(drawn[0].batch)) / self.samples

    def update(self, state: PyTree, view: View, signal: Float[Array, " B"]) -> PyTree:
        return ()


class Network(eqx.Module):
    """A layer of tanh units, and a weighted sum of them that starts at 0."""

    hidden: Affine
    output: Float[Array, " features"]

    def __call__(self, inputs: Float[Array, "B I"]) -> Float[Array, " B"]:
        return jnp.tanh(jax.vmap(self.hidden)(inputs)) @ self.output


class Fit(eqx.Module):
    """The state of a learned baseline. All but the first two are moving averages, from 0."""

    network: Network
    opt_state: PyTree
    one: Float[Array, ""]  # of 1: what the others have to be divided by, as they began at 0
    signal: Float[Array, ""]
    spread: Float[Array, ""]  # squared distance of the signal from its mean
    residual: Float[Array, ""]  # and from the baseline


class Learned(AbstractBaseline):
    """A small network of the values of the node's parents, `features` tanh units, that predicts the
    signal. It is trained by least squares, one step of the `optimizer` a batch, after use. Of the
    example it sees what the node sees. Where the objective depends on more of it than that, as with
    a reward that is larger for some examples than for others, `Resampled` sees all, and so does
    this if the node reads the context too. (`init` has no example, and so not the context's size.)

    The network predicts (signal - mean) / deviation, with moving averages of this `decay` for both:
    so one learning rate is good for signals of any size, and a network that has not learned
    anything yet is a moving average.

    With `normalise`, all credit of a node is divided by max(1, sigma), as in NVIL (Mnih and Gregor
    2014): sigma^2 is the moving average of the squares of what was left of the signal in batches
    before, summed over the node's routes. That is known before the sample is drawn, so that

        E[estimate of a node]  =  gradient of the node / max(1, sigma of the node)

    exactly: unbiased for each node but for a positive factor. The factors of nodes differ, and
    those of the objective's own layers are 1; of a tied layer, each place has its own. So the whole
    estimate does not point along the gradient on average, though uphill: `unbiased` is
    False.

    >>> estimator = hnca.HNCA(hnca.Learned(features=8))
    >>> estimate, state = estimator(graph, sample, estimator.init(graph, key=key))
    """

    features: int = eqx.field(default=8, static=True)
    optimizer: optax.GradientTransformation = eqx.field(default=optax.adam(1e-3), static=True)
    decay: int | float = eqx.field(default=0.99, static=True)
    normalise: bool = eqx.field(default=False, static=True)
    needs_objective: ClassVar[bool] = False

    def __check_init__(self):
        _check_decay(self)
        if self.features < 1:
            raise ValueError(f"Learned: features must be 1 or more, not {self.features}")

    def init(self, node: Node, *, key: PRNGKeyArray | None = None) -> PyTree:
        if key is None:
            raise ValueError("Learned draws its first weights: pass key= to init")
        hidden, zero = Affine(node.layer.inputs, self.features, key=key), jnp.zeros(())
        network = Network(hidden, jnp.zeros(self.features))
        opt_state = self.optimizer.init(network)  # pyright: ignore[reportArgumentType]
        return Fit(network, opt_state, zero, zero, zero, zero)

    def value(
        self, state: PyTree, view: View, components: Sequence[AbstractComponent]
    ) -> Float[Array, " B"]:
        mean, deviation = self._scale(state)
        return mean + deviation * state.network(at_least_single(view.parents))

    def update(self, state: PyTree, view: View, signal: Float[Array, " B"]) -> PyTree:
        """A signal that is not finite counts as predicted: nothing is learned from it. An average
        passes over what it cannot take, and a slope that cannot be squared counts as 0."""
        predicted = self.value(state, view, ())
        signal = jnp.where(jnp.isfinite(signal), signal, predicted)
        move = partial(_moved, self.decay)
        taken = jnp.isfinite(jnp.mean(signal))
        one = jnp.where(taken, self.decay * state.one + (1 - self.decay), state.one)
        average = move(state.signal, signal)
        spread = move(state.spread, (signal - _from_zero(average, one)) ** 2)
        residual = state.residual
        if self.normalise:
            residual = move(residual, (signal - predicted) ** 2)
        averages = one, average, spread, residual
        mean, deviation = self._scale(Fit(state.network, state.opt_state, *averages))
        return Fit(*self._fitted(state, view, (signal - mean) / deviation), *averages)

    @property
    def unbiased(self) -> bool:
        return not self.normalise

    def divisors(self, states: Mapping[str, Sequence[PyTree]]) -> dict[str, Float[Array, ""]]:
        if not self.normalise:
            return {}
        square = lambda fit: _from_zero(fit.residual, fit.one)
        total = lambda routes: sum(map(square, routes), jnp.zeros(()))
        return {name: jnp.sqrt(jnp.maximum(1, total(routes))) for name, routes in states.items()}

    def _fitted(self, state: Fit, view: View, target: Float[Array, " B"]) -> tuple[Network, PyTree]:
        """The network after a step towards the target."""
        inputs = at_least_single(view.parents)
        error = lambda network: jnp.mean((network(inputs) - target) ** 2)
        most = math.sqrt(jnp.finfo(inputs.dtype).max)
        tame = lambda leaf: jnp.where(jnp.abs(leaf) < most, leaf, 0)
        slope = jax.tree.map(tame, jax.grad(error)(state.network))
        updates, opt_state = self.optimizer.update(slope, state.opt_state, state.network)  # pyright: ignore[reportArgumentType]
        return eqx.apply_updates(state.network, updates), opt_state

    def _scale(self, state: Fit) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """Mean and deviation of the signal; the latter a little more, lest rounding be learned."""
        mean = _from_zero(state.signal, state.one)
        deviation = jnp.sqrt(_from_zero(state.spread, state.one))
        return mean, deviation + 1e-3 * jnp.abs(mean) + jnp.finfo(mean.dtype).tiny


def _moved(decay: float, average: Float[Array, ""], batch: Float[Array, " B"]) -> Float[Array, ""]:
    """A moving average after a batch; a mean that is not finite is passed over."""
    mean = jnp.mean(batch)
    return jnp.where(jnp.isfinite(mean), decay * average + (1 - decay) * mean, average)


def _from_zero(average: Float[Array, ""], one: Float[Array, ""]) -> Float[Array, ""]:
    """A moving average that began at 0, without what is left of that 0; at first, 0."""
    return average / jnp.where(one > 0, one, 1)


def _check_decay(baseline: MovingAverage | Learned) -> None:
    if not 0 <= baseline.decay < 1:
        kind = type(baseline).__name__
        raise ValueError(f"{kind}: decay must be in [0, 1), not {baseline.decay}")
