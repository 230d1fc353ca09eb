"""Layers of discrete stochastic units: everything that follows from their logits.

Shapes, here and in every other file:

    B  batch        examples side by side
    I  inputs       the values of all parents of a layer, side by side
    U  units        of a layer
    K  categories   of a categorical unit
    V  choices      values that a unit can take: 2 for Bernoulli, K for categorical

A *table* is an array `[V, B, U]`: something for each value that a unit could have taken.

Methods that relax units ask for values *between* the choices, expanded: of a Bernoulli unit any
number between its two values, of a categorical one a point of the simplex. So the values of a
categorical layer are category indices, or `[B, U, K]` where they are relaxed, which no array of
indices can be mistaken for. All that a layer does with values is linear in the weights of the
choices (`indicator`), and so is defined between them, too.
"""

import math
from abc import abstractmethod
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Num, PRNGKeyArray

from .convolution import Convolution
from .draws import draw_bernoulli, draw_categorical
from .foreign import explained, refuse_state
from .kernels.bernoulli import entropy as bernoulli_entropy
from .kernels.settled import settled
from .kernels.softplus import softplus
from .validation import check_between, check_choices, check_coding, check_shape


class Affine(eqx.Module):
    """A matrix and a bias: the default map from a layer's inputs to its logits.

    >>> hnca.Affine(3, 2, key=key)(jnp.ones(3)).shape
    (2,)
    """

    weight: Float[Array, "outputs inputs"]
    bias: Float[Array, " outputs"]

    def __init__(self, inputs: int, outputs: int, *, key: PRNGKeyArray):
        limit = math.sqrt(6 / (inputs + outputs))  # Glorot and Bengio (2010), uniform
        self.weight = jax.random.uniform(key, (outputs, inputs), minval=-limit, maxval=limit)
        self.bias = jnp.zeros(outputs)

    def __call__(self, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        return x @ self.weight.T + self.bias


class Readout(eqx.Module):
    """A linear map of the features that any module computes, a conv net say: `logits=` of a layer.
    What a layer's `logits` could as well do in one module, but here the gradient's variance is
    measured without writing out the large matrix's gradient for every example.

    >>> mlp = eqx.nn.MLP(6, 8, 8, 1, key=key)
    >>> layer = hnca.Bernoulli(6, 2, logits=hnca.Readout(mlp, hnca.Affine(8, 2, key=key)))
    >>> layer(x).shape
    (5, 2)
    """

    features: Callable
    affine: Affine

    def __call__(self, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        return self.affine(self.features(x))


class Plain(eqx.Module):
    """A function that is no module, kept out of the leaves of the model."""

    function: Callable = eqx.field(static=True)

    def __call__(self, *args):
        return self.function(*args)


class Fixed(eqx.Module):
    """A map that is not trained, and is not meant to be: `logits=Fixed(function)`. What the
    function closes over stays as it is.

    >>> layer = hnca.Bernoulli(6, 6, logits=hnca.Fixed(lambda x: 2 * x))
    >>> layer(x).shape
    (5, 6)
    """

    function: Callable = eqx.field(static=True)

    def __init__(self, function: Callable):
        if jax.tree.leaves(eqx.filter(function, eqx.is_array)):
            raise ValueError("Fixed: this map has arrays among its leaves; pass a plain function")
        self.function = function

    def __call__(self, *args):
        return self.function(*args)


def as_module(function: Callable) -> Callable:
    """The function itself if it is a pytree (a module), else its `Plain` wrapping."""
    is_leaf = jax.tree.structure(function) == jax.tree.structure(0)
    return Plain(function) if is_leaf else function


def at_least_single(array: Float[Array, "..."]) -> Float[Array, "..."]:
    """In float32, or float64 if it is. In less, random numbers have few values (128 in bfloat16),
    and draws are biased."""
    return array.astype(jnp.promote_types(array.dtype, jnp.float32))


class AbstractLayer(eqx.Module):
    """Units that are independent of one another given the layer's inputs.

    >>> layer = hnca.Categorical(6, 10, units=2, key=key)
    >>> layer.choices, layer.logits_shape, layer.width
    (10, (2, 10), 20)
    """

    inputs: eqx.AbstractVar[int]
    units: eqx.AbstractVar[int]
    logits: eqx.AbstractVar[Callable]

    @property
    @abstractmethod
    def choices(self) -> int:
        """V, the number of values that a unit can take."""

    @property
    @abstractmethod
    def logits_shape(self) -> tuple[int, ...]:
        """Shape of one example's logits."""

    @property
    @abstractmethod
    def width(self) -> int:
        """How many inputs the layer's values are to a child."""

    @abstractmethod
    def sample(self, logits: Float[Array, "B ..."], key: PRNGKeyArray) -> Num[Array, "B ..."]:
        """Values drawn from the policy of each unit."""

    @abstractmethod
    def as_values(self, values: Num[Array, "B ..."], name: str) -> Num[Array, "B ..."]:
        """The values in the layer's own shape and type, or an error that names `name`."""

    @abstractmethod
    def check_target(self, values: Num[Array, "B ..."], name: str) -> None:
        """Refuses values that `log_prob` could not be of, where they can be seen."""

    @abstractmethod
    def choice(self, values: Num[Array, "B ..."]) -> Int[Array, "B U"]:
        """The places of the values among the V choices; V for what is none of them."""

    @abstractmethod
    def chosen(self, choices: Int[Array, "B U"]) -> Num[Array, "B ..."]:
        """The values that have these places: the inverse of `choice`."""

    @abstractmethod
    def expand(self, values: Num[Array, "B ..."]) -> Float[Array, "B U *K"]:
        """The values as children and functions see them: categories one-hot. Relaxed values are
        expanded already."""

    @abstractmethod
    def blend(self, weights: Float[Array, "V B U"]) -> Float[Array, "B U *K"]:
        """The expanded values that are so much of each choice: the inverse of `indicator`."""

    @abstractmethod
    def mean(self, logits: Float[Array, "B ..."]) -> Float[Array, "B U *K"]:
        """The expanded mean of the values."""

    @abstractmethod
    def assign(
        self, expanded: Float[Array, "B U *K"], unit: Int[Array, ""], choice: Int[Array, " B"]
    ) -> Float[Array, "B U *K"]:
        """The expanded values, with one unit set to the given choices."""

    @abstractmethod
    def indicator(self, values: Num[Array, "B ..."]) -> Float[Array, "V B U"]:
        """1 where a unit took that value, else 0."""

    @abstractmethod
    def effects(self, weight: Float[Array, "O width"]) -> Float[Array, "V U O"]:
        """What each value of each unit adds to the outputs of a matrix."""

    @abstractmethod
    def log_odds(self, logits: Float[Array, "B ..."]) -> Float[Array, "V B U"]:
        """log pi(v) of every value, up to a constant that is the same for all of them."""

    @abstractmethod
    def log_prob(
        self, logits: Float[Array, "B ..."], values: Num[Array, "B ..."]
    ) -> Float[Array, " B"]:
        """log pi of the given values, summed over units; of relaxed ones, the mean over choices."""

    @abstractmethod
    def entropy(self, logits: Float[Array, "B ..."]) -> Float[Array, " B"]:
        """Entropy of the policy, summed over units."""

    @abstractmethod
    def posterior(
        self, logits: Float[Array, "B ..."], evidence: Float[Array, "V B U"]
    ) -> Float[Array, "V B U"]:
        """P(unit = v | evidence), proportional to pi(v) exp(evidence(v))  (Eq. 2)."""

    @abstractmethod
    def expected_score(
        self, logits: Float[Array, "B ..."], weights: Float[Array, "V B U"]
    ) -> Float[Array, "B U *K"]:
        """sum_v weights(v) d log pi(v) / d logits."""

    @property
    def shape(self) -> tuple[int, ...]:
        """How the units of one example lie: `[H, W, units at a place]` if the logits are a
        convolution, else `[U]`."""
        if isinstance(self.logits, Convolution):
            height, width, _ = self.logits.shape
            if self.units % (height * width) == 0:  # else categories would lie across places
                return height, width, self.units // (height * width)
        return (self.units,)

    def __call__(self, features: Float[Array, "B I"]) -> Float[Array, "B U *K"]:
        """Logits of a batch of inputs."""
        map = self.logits
        is_convolution = type(map) is Convolution  # a subclass may be another map
        logits = map.of_batch(features) if is_convolution else jax.vmap(map)(features)
        if isinstance(logits, tuple):
            raise TypeError(f"they are {len(logits)} things: a new state beside the logits?")
        return logits.reshape(len(features), *self.logits_shape)

    def check_logits(self, who: str) -> None:
        """Refuses a map that does not lead from the layer's inputs to its units."""
        refuse_state(who, self.logits)
        example = jax.ShapeDtypeStruct((1, self.inputs), jnp.result_type(float))
        try:
            eqx.filter_eval_shape(self, example)
        except Exception as error:
            shapes = f"[{self.inputs}] to {list(self.logits_shape)}"
            raise ValueError(f"{who}: its logits must map {shapes}: {explained(error)}") from error


class Bernoulli(AbstractLayer):
    """Units that fire or not, with the log-odds that `logits` gives them.

    Values are in the units' own coding: `values=(0, 1)`, `values=(-1, 1)`, or any other pair
    (value at rest, value when fired).

    >>> layer = hnca.Bernoulli(6, 2, values=(-1, 1), key=key)
    >>> layer.sample(layer(x), key).shape
    (5, 2)
    """

    logits: Callable
    inputs: int = eqx.field(static=True)
    units: int = eqx.field(static=True)
    values: tuple[int | float, int | float] = eqx.field(static=True)

    def __init__(
        self,
        inputs: int,
        units: int,
        *,
        values: tuple[int | float, int | float] = (0, 1),
        logits: Callable | None = None,
        key: PRNGKeyArray | None = None,
    ):
        """`logits` maps one example's inputs `[I]` to `[U]`; by default a matrix and a bias,
        drawn from `key`. Where the layer is the child of another, HNCA has fast tables for the
        default, and for a `Convolution` of one parent; any other map is evaluated once for each
        other value of each unit of the parent, a few at a time."""
        check_coding(values)
        self.inputs, self.units = inputs, units
        self.values = (values[0], values[1])
        self.logits = _logits_map("Bernoulli", logits, inputs, units, key)

    @property
    def choices(self) -> int:
        return 2

    @property
    def logits_shape(self) -> tuple[int, ...]:
        return (self.units,)

    @property
    def width(self) -> int:
        return self.units

    def sample(self, logits, key):
        fired = draw_bernoulli(key, jax.nn.sigmoid(at_least_single(logits)))
        rest, active = self.values
        return jnp.where(fired, active, rest).astype(logits.dtype)

    def as_values(self, values, name):
        check_shape(name, values, (self.units,))
        check_choices(name, values, self.values)
        return values.astype(jnp.result_type(values, float))

    def check_target(self, values, name):
        check_between(name, values, self.values)

    def choice(self, values):
        return (self.fired(values) > 0.5).astype(int)

    def chosen(self, choices):
        return jnp.asarray(self.values, float)[choices]

    def expand(self, values):
        return values

    def blend(self, weights):
        return self._between(weights[1])

    def mean(self, logits):
        return self._between(jax.nn.sigmoid(logits))

    def _between(self, fired: Float[Array, "B U"]) -> Float[Array, "B U"]:
        rest, active = self.values
        return rest + (active - rest) * fired

    def assign(self, expanded, unit, choice):
        return expanded.at[:, unit].set(jnp.asarray(self.values, expanded.dtype)[choice])

    def fired(self, values: Num[Array, "B ..."]) -> Float[Array, "B U"]:
        """The values in 0/1 coding."""
        rest, active = self.values
        return (values.reshape(-1, self.units) - rest) / (active - rest)

    def indicator(self, values):
        fired = self.fired(values)  # between 0 and 1 for a soft target of `LogProb`
        return jnp.stack([1 - fired, fired])

    def effects(self, weight):
        return jnp.stack([value * weight.T for value in self.values])

    def log_odds(self, logits):
        return jnp.stack([jnp.zeros_like(logits), logits])

    def log_prob(self, logits, values):
        return jnp.sum(self.fired(values) * logits - settled(softplus(logits)), axis=-1)

    def entropy(self, logits):
        return jnp.sum(settled(bernoulli_entropy(logits)), axis=-1)

    def posterior(self, logits, evidence):
        hindsight = logits + evidence[1] - evidence[0]
        return jnp.stack([jax.nn.sigmoid(-hindsight), jax.nn.sigmoid(hindsight)])

    def expected_score(self, logits, weights):
        return weights[1] * jax.nn.sigmoid(-logits) - weights[0] * jax.nn.sigmoid(logits)


class Categorical(AbstractLayer):
    """Units that take one of `categories` values, with the softmax of their logits.

    Values are category indices `[B, U]`, or `[B]` for a single unit.

    >>> layer = hnca.Categorical(6, 10, units=2, key=key)
    >>> layer.sample(layer(x), key).shape
    (5, 2)
    """

    logits: Callable
    inputs: int = eqx.field(static=True)
    categories: int = eqx.field(static=True)
    units: int = eqx.field(static=True)

    def __init__(
        self,
        inputs: int,
        categories: int,
        *,
        units: int = 1,
        logits: Callable | None = None,
        key: PRNGKeyArray | None = None,
    ):
        """`logits` maps one example's inputs `[I]` to `[U, K]` (or that flattened); by default
        a matrix and a bias, drawn from `key`. What another map costs: see `Bernoulli`."""
        if categories < 2:
            raise ValueError(f"Categorical: categories must be at least 2, not {categories}")
        self.inputs, self.categories, self.units = inputs, categories, units
        self.logits = _logits_map("Categorical", logits, inputs, units, key, categories)

    @property
    def choices(self) -> int:
        return self.categories

    @property
    def logits_shape(self) -> tuple[int, ...]:
        return (self.units, self.categories)

    @property
    def width(self) -> int:
        return self.units * self.categories

    @property
    def _values_shape(self) -> tuple[int, ...]:
        return () if self.units == 1 else (self.units,)

    def sample(self, logits, key):
        indices = draw_categorical(key, at_least_single(logits))
        return indices.reshape(-1, *self._values_shape)

    def as_values(self, values, name):
        check_shape(name, values, self._values_shape)
        check_choices(name, values, range(self.categories))
        return values.astype(int)

    def check_target(self, values, name):
        check_choices(name, values, range(self.categories))

    def choice(self, values):
        """An impossible label, which jit cannot refuse, is out of range and so scores NaN: not
        the last category's score for -1, nor that of 1 for 1.9."""
        labels = values.reshape(-1, self.units)
        choice = labels.astype(int)
        possible = (choice >= 0) & (choice < self.categories) & (choice == labels)
        return jnp.where(possible, choice, self.categories)

    def chosen(self, choices):
        return choices.reshape(-1, *self._values_shape)

    def _relaxed(self, values: Num[Array, "B ..."]) -> bool:
        return values.shape[1:] == self.logits_shape

    def expand(self, values):
        if self._relaxed(values):
            return values
        choice = self.choice(values)
        one_hot = jax.nn.one_hot(choice, self.categories)
        return jnp.where(choice[..., None] < self.categories, one_hot, jnp.nan)

    def blend(self, weights):
        return jnp.moveaxis(weights, 0, -1)

    def mean(self, logits):
        return jax.nn.softmax(logits)

    def assign(self, expanded, unit, choice):
        return expanded.at[:, unit].set(jax.nn.one_hot(choice, self.categories))

    def indicator(self, values):
        return jnp.moveaxis(self.expand(values), -1, 0)

    def effects(self, weight):
        return weight.T.reshape(self.units, self.categories, -1).swapaxes(0, 1)

    def log_odds(self, logits):
        return jnp.moveaxis(logits, -1, 0)

    def log_prob(self, logits, values):
        if self._relaxed(values):
            return jnp.sum(values * jax.nn.log_softmax(logits), axis=(-2, -1))
        chosen = self.choice(values)[..., None]
        return jnp.sum(jnp.take_along_axis(jax.nn.log_softmax(logits), chosen, -1), axis=(-2, -1))

    def entropy(self, logits):
        log_policy = jax.nn.log_softmax(logits)
        return -jnp.sum(jnp.exp(log_policy) * log_policy, axis=(-2, -1))

    def posterior(self, logits, evidence):
        return jax.nn.softmax(self.log_odds(logits) + evidence, axis=0)

    def expected_score(self, logits, weights):
        total = jnp.sum(weights, axis=0)[..., None]
        return jnp.moveaxis(weights, 0, -1) - jax.nn.softmax(logits) * total


def maps_of(layer: AbstractLayer) -> dict[str, Callable]:
    """The maps that a user may have brought to a layer, each of which should have parameters."""
    logits = layer.logits
    features = {"features": logits.features} if isinstance(logits, Readout) else {}
    return {"logits": logits, **features}


def _logits_map(
    kind: str,
    logits: Callable | None,
    inputs: int,
    units: int,
    key: PRNGKeyArray | None,
    categories: int = 1,
) -> Callable:
    if units < 1 or inputs < 0:
        raise ValueError(f"{kind}: sizes do not make sense: inputs={inputs}, units={units}")
    if logits is not None:
        return as_module(logits)
    if key is None:
        raise ValueError(f"{kind}: pass key= to draw the weights, or logits= to bring a map")
    return Affine(inputs, units * categories, key=key)
