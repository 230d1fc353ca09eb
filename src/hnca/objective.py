"""The function components that an objective is a sum of."""

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Num, PRNGKeyArray

from .counterfactual import Counterfactuals
from .graph import AbstractComponent, Graph, Node, Sample, entropy_name
from .ties import Place, as_place, layer_in
from .units import AbstractLayer, Affine, Bernoulli, Categorical, as_module
from .validation import check_width, checked_names, quoted


class Reward(AbstractComponent):
    """Opaque: the world answers with one number an example, and only for what was done.

    >>> action = hnca.Node("action", hnca.Categorical(6, 4, key=key), parents=["x"])
    >>> policy = hnca.Graph([action], [hnca.Reward("reward", parents=["action"])])
    >>> policy.value(policy.sample(key, x=x), reward=jnp.ones(5)).tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0]
    """

    name: str = eqx.field(static=True)
    parents: tuple[str, ...] = eqx.field(static=True)
    opaque: ClassVar[bool] = True

    def __init__(self, name: str, parents: Sequence[str]):
        self.name = name
        self.parents = checked_names(f"Reward '{name}'", parents)

    def check(self, graph: Graph, widths: Mapping[str, int]) -> None:
        if not any(name in graph.structure.place for name in self.parents):
            names, nodes = quoted(self.parents), quoted(graph.node_names)
            raise ValueError(f"Reward '{self.name}': no node among {names}; the nodes are {nodes}")

    def value(self, graph: Graph, sample: Sample) -> Float[Array, " B"]:
        raise ValueError(f"Reward '{self.name}': only the world knows its value; pass reward=")

    def change(self, tables: Counterfactuals, name: str) -> Float[Array, "V B U"]:
        raise ValueError(f"Reward '{self.name}' has no counterfactual: it is opaque")


class LogProb(AbstractComponent):
    """log p(of | given) under a layer of its own, as in the decoder of a VAE (Eq. 7).

    `of` is a node or a context array. Its layer gets credit under the name `p:of`; in its place
    may stand the name of a node or of an earlier component, whose layer it then has: `"p:x"`, say,
    for that of `LogProb("x", ...)`. The values of
    a context array are targets: for Bernoulli units between the two values of the coding, for
    categorical units a category's index. `sample` and `observe` refuse others where they can see
    them. Under jit nobody can: an impossible category then makes value and credit NaN, and targets
    of Bernoulli units are taken as they are (pixels of 0 to 255 are no probabilities).

    >>> component = hnca.LogProb("x", hnca.Bernoulli(3, 6, key=key), given=["h1"])
    >>> component.name, component.value(graph, sample).shape
    ('p:x', (5,))
    """

    _layer: Place
    of: str = eqx.field(static=True)
    given: tuple[str, ...] = eqx.field(static=True)

    def __init__(self, of: str, layer: Place | str, given: Sequence[str] = ()):
        self.of, self._layer = of, as_place(layer)
        self.given = checked_names(f"LogProb '{of}'", given)
        checked_names(f"LogProb '{of}'", [of, *given])

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return f"p:{self.of}"

    @property
    def layer(self) -> AbstractLayer:
        return layer_in(f"LogProb '{self.of}'", self._layer)

    @property
    def owner(self) -> str | None:
        """The name of the part whose layer it has, if that is another."""
        return self._node.owner

    @property
    def _node(self) -> Node:
        return Node(self.of, self._layer, self.given)

    def inputs(self, graph: Graph) -> tuple[str, ...]:
        return (self.of, *self.given)

    def check(self, graph: Graph, widths: Mapping[str, int]) -> None:
        check_width(f"LogProb '{self.of}'", self.layer.inputs, self.given, widths)
        wanted = _coding(graph[self.of].layer) if self.of in graph.structure.place else None
        if wanted and wanted != _coding(self.layer):
            got = _coding(self.layer)
            raise ValueError(f"LogProb '{self.of}': its layer is {got}, but the node is {wanted}")
        if not wanted and widths.get(self.of, self.layer.units) != self.layer.units:
            sizes = f"has {self.layer.units} units, but the array has {widths[self.of]}"
            raise ValueError(f"LogProb '{self.of}': its layer {sizes}")

    def check_values(self, graph: Graph, arrays: Mapping[str, Array]) -> None:
        if self.of in graph.structure.context:
            self.layer.check_target(arrays[self.of], self.of)

    def _logits(self, graph: Graph, sample: Sample) -> Float[Array, "B ..."]:
        return self.layer(graph.features(sample, self.given))

    def value(self, graph: Graph, sample: Sample) -> Float[Array, " B"]:
        return self.layer.log_prob(self._logits(graph, sample), sample[self.of])

    def change(self, tables: Counterfactuals, name: str) -> Float[Array, "V B U"]:
        if name in self.given:
            return tables.log_prob(self._node, name)
        table = self.layer.log_odds(self._logits(tables.graph, tables.sample))
        taken = self.layer.indicator(tables.sample[name]) * table
        if len(taken) == 2:  # by XLA on a CPU, a sum over a leading axis is many times slower
            return table - (taken[:1] + taken[1:])
        return table - jnp.sum(taken, axis=0, keepdims=True)

    def conditionals(self) -> dict[str, Node]:
        return {self.name: self._node}

    def direct_credit(self, graph: Graph, sample: Sample) -> dict[str, Float[Array, "B ..."]]:
        logits = self._logits(graph, sample)
        indicator = self.layer.indicator(sample[self.of])
        return {self.name: self.layer.expected_score(logits, indicator)}


class Entropy(AbstractComponent):
    """The entropy of a node's policy given its parents: a function of the parents' values and
    of the node's own logits, but not of the node's value.

    >>> component = hnca.Entropy("h1")
    >>> component.name, component.value(graph, sample).shape
    ('H:h1', (5,))
    """

    of: str = eqx.field(static=True)

    def __init__(self, of: str):
        self.of = of

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return entropy_name(self.of)

    def inputs(self, graph: Graph) -> tuple[str, ...]:
        return graph[self.of].parents if self.of in graph.structure.place else ()

    def check(self, graph: Graph, widths: Mapping[str, int]) -> None:
        if self.of not in graph.structure.place:
            nodes = quoted(graph.node_names)
            raise ValueError(f"Entropy '{self.of}': no such node; the nodes are {nodes}")

    def value(self, graph: Graph, sample: Sample) -> Float[Array, " B"]:
        return graph[self.of].layer.entropy(sample.logits[self.of])

    def change(self, tables: Counterfactuals, name: str) -> Float[Array, "V B U"]:
        return tables.entropy(self.of, name)

    def direct_credit(self, graph: Graph, sample: Sample) -> dict[str, Float[Array, "B ..."]]:
        total_entropy = lambda logits: jnp.sum(graph[self.of].layer.entropy(logits))
        return {self.of: jax.grad(total_entropy)(sample.logits[self.of])}


class Linear(AbstractComponent):
    """An activation of a linear map of the parents' values, summed over the outputs
    (Algorithm "f-HNCA for Linear Function Components").

    `activation` is elementwise.

    >>> component = hnca.Linear("f", 3, 4, jnp.tanh, parents=["h1"], key=key)
    >>> component.value(graph, sample).shape
    (5,)
    """

    map: Affine
    activation: Callable
    name: str = eqx.field(static=True)
    parents: tuple[str, ...] = eqx.field(static=True)

    def __init__(
        self,
        name: str,
        inputs: int,
        outputs: int,
        activation: Callable,
        parents: Sequence[str],
        key: PRNGKeyArray,
    ):
        self.name = name
        self.map = Affine(inputs, outputs, key=key)
        self.activation = as_module(activation)
        self.parents = checked_names(f"Linear '{name}'", parents)

    def check(self, graph: Graph, widths: Mapping[str, int]) -> None:
        inputs = self.map.weight.shape[1]
        check_width(f"Linear '{self.name}'", inputs, self.parents, widths)

    def value(self, graph: Graph, sample: Sample) -> Float[Array, " B"]:
        return self._total(jax.vmap(self.map)(graph.features(sample, self.parents)))

    def _total(self, outputs: Float[Array, "B O"]) -> Float[Array, " B"]:
        return jnp.sum(self.activation(outputs), axis=-1)

    def change(self, tables: Counterfactuals, name: str) -> Float[Array, "V B U"]:
        return tables.activation(self.map, self._total, self.parents, name)


class Function(AbstractComponent):
    """Any JAX function of its parents' values: `fn(first, second, ...) -> [B]`, with one argument
    `[B, U]` a parent (categorical: one-hot `[B, U, K]`; context: as it was given).

    `fn` may be a module with parameters of its own. Its counterfactuals cost an evaluation for
    each value of each unit of a parent that is a node: U x V times the price of the function.

    >>> component = hnca.Function("f", lambda h, x: h.sum(-1) * x[:, 0], parents=["h1", "x"])
    >>> component.value(graph, sample).shape
    (5,)
    """

    fn: Callable
    name: str = eqx.field(static=True)
    parents: tuple[str, ...] = eqx.field(static=True)

    def __init__(self, name: str, fn: Callable, parents: Sequence[str]):
        self.name = name
        self.fn = as_module(fn)
        self.parents = checked_names(f"Function '{name}'", parents)

    def check(self, graph: Graph, widths: Mapping[str, int]) -> None:
        if not self.parents:
            raise ValueError(f"Function '{self.name}' has no parents: it would be a constant")

    def _of(self, arguments: Mapping[str, Array], batch: int) -> Float[Array, " B"]:
        value = self.fn(*(arguments[name] for name in self.parents))
        if jnp.shape(value) != (batch,):
            shapes = f"shape [{batch}], one number an example, not {list(jnp.shape(value))}"
            raise ValueError(f"Function '{self.name}' must return {shapes}")
        return value.astype(jnp.result_type(value, float))

    def value(self, graph: Graph, sample: Sample) -> Float[Array, " B"]:
        return self._of(self._arguments(graph, sample), sample.batch)

    def _arguments(self, graph: Graph, sample: Sample) -> dict[str, Num[Array, "B ..."]]:
        nodes = graph.structure.place
        return {
            name: graph.expand(sample, name) if name in nodes else sample[name]
            for name in self.parents
        }

    def change(self, tables: Counterfactuals, name: str) -> Float[Array, "V B U"]:
        arguments = self._arguments(tables.graph, tables.sample)
        return tables.function(
            lambda units: self._of(arguments | {name: units}, tables.sample.batch), name
        )


def _coding(layer: AbstractLayer) -> str:
    """The values that a layer's units take, in words."""
    if isinstance(layer, Bernoulli):
        rest, active = layer.values
        return f"{layer.units} Bernoulli units of ({rest:g}, {active:g})"
    if isinstance(layer, Categorical):
        return f"{layer.units} Categorical units of {layer.categories}"
    return f"{layer.units} units of {layer.choices} choices"
