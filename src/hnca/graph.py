"""The model: a directed acyclic graph of layers, and the objective that hangs off it."""

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Num, PRNGKeyArray, PyTree

from .structure import Structure
from .ties import Part, Place, Tied, as_place, by_owner, filled, layer_in, tied_to
from .units import AbstractLayer, Fixed, maps_of
from .validation import (
    check_unique,
    check_untied,
    check_width,
    checked_arrays,
    checked_names,
    checked_rewards,
    checked_weights,
    parents_first,
    quoted,
    warn_untrained,
)

if TYPE_CHECKING:
    from .counterfactual import Counterfactuals


class Node(eqx.Module):
    """A layer of units given its parents, which are other nodes or context arrays.

    >>> node = hnca.Node("h", hnca.Bernoulli(6, 2, key=key), parents=["x"])
    >>> node.name, node.parents
    ('h', ('x',))

    In place of the layer, the name of an earlier node gives it the same one, with the same
    parameters: `Node("h2", "h1", parents=["h1"])`.
    """

    _layer: Place
    name: str = eqx.field(static=True)
    parents: tuple[str, ...] = eqx.field(static=True)

    def __init__(self, name: str, layer: Place | str, parents: Sequence[str] = ()):
        self.name, self._layer = name, as_place(layer)
        self.parents = checked_names(f"node '{name}'", parents)

    @property
    def layer(self) -> AbstractLayer:
        return layer_in(f"node '{self.name}'", self._layer)

    @property
    def owner(self) -> str | None:
        """The name of the part whose layer it has, if that is another."""
        return self._layer.name if isinstance(self._layer, Tied) else None


# A node's values, from its logits given its parents' values. They may be relaxed: see units.py.
Pick = Callable[[Node, Float[Array, "B ..."]], Num[Array, "B ..."]]


class Sample(eqx.Module):
    """What the units did: the record of a forward pass, for each example of a batch.

    It belongs to the parameters that it was drawn with.

    >>> sample["h1"].shape, sample.logits["h1"].shape, sample.log_prob.shape
    ((5, 3), (5, 3), (5,))
    """

    values: dict[str, Num[Array, "B ..."]]  # of the context and of every node
    logits: dict[str, Float[Array, "B ..."]]  # of every node
    log_prob: Float[Array, " B"]  # of all nodes together, given the context

    def __getitem__(self, name: str) -> Num[Array, "B ..."]:
        return self.values[name]

    @property
    def batch(self) -> int:
        return len(self.log_prob)


class AbstractComponent(eqx.Module):
    """A function component: one term of the objective. Not a node.

    One of your own needs a `name`, the `parents` whose values it is a function of, and `value`.
    The rest is for a component that has a faster way (`change`), that reads more than the values
    of its parents (`inputs`, `direct_credit`), or that has layers of its own (`conditionals`).

    >>> class Count(hnca.AbstractComponent):
    ...     name: str = eqx.field(static=True)
    ...     parents: tuple[str, ...] = eqx.field(static=True)
    ...
    ...     def value(self, graph, sample):
    ...         return sample[self.parents[0]].sum(-1)
    >>> hidden = hnca.Node("h", hnca.Bernoulli(0, 3, key=key))
    >>> counting = hnca.Graph([hidden], [Count("count", ("h",))])
    >>> counting.value(counting.observe(h=jnp.array([[1, 0, 1], [0, 0, 1]]))).tolist()
    [2.0, 1.0]
    """

    name: eqx.AbstractVar[str]
    opaque: ClassVar[bool] = False  # its value comes from outside, for this sample only

    @abstractmethod
    def value(self, graph: "Graph", sample: Sample) -> Float[Array, " B"]:
        """Its value for the sample."""

    def inputs(self, graph: "Graph") -> tuple[str, ...]:
        """The nodes and context arrays that it is a function of."""
        parents = getattr(self, "parents", None)
        if parents is None:
            kind = type(self).__name__
            raise TypeError(f"{kind} '{self.name}' needs `parents`, or a method `inputs(graph)`")
        return checked_names(f"{type(self).__name__} '{self.name}'", parents)

    def check(self, graph: "Graph", widths: Mapping[str, int]) -> None:
        """Refuses a graph that it does not fit. `widths` has those of context arrays too, once
        there are some."""

    def check_values(self, graph: "Graph", arrays: Mapping[str, Array]) -> None:
        """Refuses values of context arrays that it cannot score, where they can be seen."""

    def change(self, tables: "Counterfactuals", name: str) -> Float[Array, "V B U"]:
        """By how much its value would change, had one unit of the node `name` taken another
        value and all else stayed: f_unit(v) - f, for every unit and every v. By default `value`
        is evaluated for each of them, on a sample that has the values of the inputs only."""
        return tables.value(self, name)

    def conditionals(self) -> dict[str, Node]:
        """Layers of its own, by the name under which they get credit."""
        return {}

    def direct_credit(self, graph: "Graph", sample: Sample) -> dict[str, Float[Array, "B ..."]]:
        """d value / d logits, where it depends on logits directly (right-hand term of Eq. 4)."""
        return {}

    @property
    def has_parameters(self) -> bool:
        """Whether it has parameters of its own, outside the `conditionals`."""
        inside = {id(leaf) for leaf in _parameters(self.conditionals())}
        return any(id(leaf) not in inside for leaf in _parameters(self))


def _parameters(tree: PyTree) -> list[Array]:
    return jax.tree.leaves(eqx.filter(tree, eqx.is_inexact_array))


def _owned(graph: "Graph", name: str) -> AbstractLayer:
    """The layer of the part that owns it. Asked for often: a function, as looking up a method of a
    module takes its time."""
    structure = graph.structure
    if name in structure.place:
        return graph._nodes[structure.place[name]].layer
    return graph._objective[structure.component[name]].conditionals()[name].layer


def entropy_name(of: str) -> str:
    """The name of the component that is the entropy of a node."""
    return f"H:{of}"


class Graph(eqx.Module):
    """A network of discrete stochastic units and its objective; the leaves are the parameters.

    A name among the parents that is no node's is the name of a context array, which `sample`
    and `observe` then ask for.

    >>> hidden = hnca.Node("h", hnca.Bernoulli(6, 2, key=key), parents=["x"])
    >>> graph = hnca.Graph([hidden], [hnca.LogProb("x", hnca.Bernoulli(2, 6, key=key), ["h"])])
    >>> sample = graph.sample(key, x=x)
    >>> sample["h"].shape, graph.value(sample).shape
    ((5, 2), (5,))
    """

    _nodes: tuple[Node, ...]  # parents before children; tied layers are names here, so that
    _objective: tuple[AbstractComponent, ...]  # the leaves have each parameter once
    structure: Structure = eqx.field(static=True)  # of names: who reads what

    def __init__(self, nodes: Sequence[Node], objective: Sequence[AbstractComponent] = ()):
        parts = [*nodes, *objective]
        check_unique([part.name for part in parts])
        owned = [node.name for node in nodes]
        owned += [part.name for part in objective if part.name in part.conditionals()]
        parts = by_owner(parts, owned)
        by_name = {node.name: node for node in parts[: len(nodes)]}
        order = parents_first({name: node.parents for name, node in by_name.items()})
        self._nodes = tuple(by_name[name] for name in order)
        self._objective = parts[len(nodes) :]
        parents = {node.name: node.parents for node in self._nodes}
        tied = {part.name: owner for part in parts for owner in tied_to(part)}
        self.structure = Structure(parents, {}, tied)  # what a component reads may depend on nodes
        inputs = {part.name: part.inputs(self) for part in self._objective}
        self.structure = Structure(parents, inputs, tied)
        self._check_widths({})
        self._check_layers()

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes, parents before children."""
        return self._filled(self._nodes)

    @property
    def objective(self) -> tuple[AbstractComponent, ...]:
        """The components that the objective is a sum of."""
        return self._filled(self._objective)

    def _filled(self, parts: tuple[Part, ...]) -> tuple[Part, ...]:
        """The parts with the layers that they have by name."""
        tied = self.structure.tied
        if not tied:
            return parts
        owned = partial(_owned, self)
        return tuple(filled(part, owned) if part.name in tied else part for part in parts)

    def with_components(self, change: Callable[[AbstractComponent], AbstractComponent]) -> "Graph":
        """The graph with other components of the same names and inputs. Those that `change` gets
        have their tied layers by name, as they are stored."""
        if not self._objective:
            return self
        changed = tuple(change(part) for part in self._objective)
        return eqx.tree_at(lambda graph: graph._objective, self, changed)

    def layer(self, name: str) -> AbstractLayer:
        """The layer of a node."""
        return _owned(self, self.structure.tied.get(name, name))

    def _check_widths(self, context_widths: dict[str, int]) -> None:
        nodes = self.nodes
        widths = {node.name: node.layer.width for node in nodes} | context_widths
        for node in nodes:
            who = f"node '{node.name}'" + (f" (as '{node.owner}')" if node.owner else "")
            check_width(who, node.layer.inputs, node.parents, widths)
        for component in self.objective:
            component.check(self, widths)

    def _check_context(self, arrays: Mapping[str, Array]) -> None:
        try:
            self._check_widths({name: math.prod(array.shape[1:]) for name, array in arrays.items()})
        except ValueError as error:
            for name, array in arrays.items():
                if array.ndim == 1:
                    hint = f"'{name}' has shape {list(array.shape)}: is its batch axis missing?"
                    raise ValueError(f"{error}; {hint}") from None
            raise

    def _check_layers(self) -> None:
        parts = [*self._nodes, *self._objective]
        check_untied({part.name: part for part in parts})
        for name, node in self.conditionals.items():
            if node.owner:
                continue
            node.layer.check_logits(f"'{name}'")
            who = f"node '{name}'" if name in self.structure.place else f"'{name}'"
            for what, map in maps_of(node.layer).items():
                if not isinstance(map, Fixed):
                    warn_untrained(who, what, map)

    # Forward

    def sample(self, key: PRNGKeyArray, /, **context: ArrayLike) -> Sample:
        """Forward pass: a value for every unit. Without any context, a batch of one."""
        arrays = checked_arrays(context, self.context_names, self.node_names)
        self._check_values(arrays)
        return self._draw(key, arrays)

    @eqx.filter_jit
    def _draw(self, key: PRNGKeyArray, arrays: Mapping[str, Array]) -> Sample:
        keys = dict(zip(self.node_names, jax.random.split(key, len(self._nodes)), strict=True))
        return self.forward(arrays, lambda node, logits: node.layer.sample(logits, keys[node.name]))

    def _check_values(self, arrays: Mapping[str, Array]) -> None:
        for component in self.objective:
            component.check_values(self, arrays)

    def observe(self, /, **values: ArrayLike) -> Sample:
        """The record of a forward pass that gave these values of the context and all nodes."""
        arrays = checked_arrays(values, self.context_names + self.node_names, self.node_names)
        for node in self.nodes:
            arrays[node.name] = node.layer.as_values(arrays[node.name], node.name)
        self._check_values(arrays)
        return self._replay(arrays)

    @eqx.filter_jit
    def _replay(self, arrays: Mapping[str, Array]) -> Sample:
        return self.forward(arrays, lambda node, _: arrays[node.name])

    def forward(self, arrays: Mapping[str, Array], pick: Pick) -> Sample:
        """The record of a forward pass in which a node does what `pick` says. The arrays have the
        context; others are passed over."""
        self._refuse_replaced()
        values = {name: arrays[name] for name in self.context_names}
        self._check_context(values)
        log_prob = jnp.zeros(len(next(iter(arrays.values()))) if arrays else 1)
        logits: dict[str, Array] = {}
        so_far = Sample(values, logits, log_prob)  # a view: it sees what is added below
        for node in self.nodes:
            logits[node.name] = node.layer(self.features(so_far, node.parents))
            values[node.name] = pick(node, logits[node.name])
            log_prob += node.layer.log_prob(logits[node.name], values[node.name])
        return Sample(values, logits, log_prob)

    def resample(
        self, key: PRNGKeyArray, sample: Sample, name: str, values: Num[Array, "B ..."]
    ) -> Sample:
        """The sample with other values of one node, and all that descends from it drawn anew."""
        keys = dict(zip(self.node_names, jax.random.split(key, len(self._nodes)), strict=True))
        return self.rerun(
            sample, name, values, lambda node, logits: node.layer.sample(logits, keys[node.name])
        )

    def rerun(self, sample: Sample, name: str, values: Num[Array, "B ..."], pick: Pick) -> Sample:
        """The sample with other values of one node, and all that descends from it doing what
        `pick` says."""
        changed, moved, logits = {name}, sample.values | {name: values}, dict(sample.logits)
        nodes = self.nodes
        so_far = Sample(moved, logits, sample.log_prob)  # a view: it sees what is added below
        for node in nodes:
            if changed.intersection(node.parents):
                logits[node.name] = node.layer(self.features(so_far, node.parents))
                moved[node.name] = pick(node, logits[node.name])
                changed.add(node.name)
        log_probs = [node.layer.log_prob(logits[node.name], moved[node.name]) for node in nodes]
        return Sample(moved, logits, sum(log_probs, jnp.zeros(sample.batch)))

    def features(self, sample: Sample, names: Sequence[str]) -> Float[Array, "B I"]:
        """The named values side by side, as a layer takes them."""
        parts = [self.expand(sample, name).reshape(sample.batch, -1) for name in names]
        return jnp.concatenate(parts, axis=1) if parts else jnp.zeros((sample.batch, 0))

    def expand(self, sample: Sample, name: str) -> Float[Array, "B ..."]:
        """The named values as children and functions see them: categories one-hot."""
        values = sample[name]
        if name in self.structure.place:
            return self.layer(name).expand(values)
        return values.astype(jnp.result_type(values, float))

    # Objective

    def component_values(
        self, sample: Sample, reward: ArrayLike | Mapping[str, ArrayLike] | None = None
    ) -> dict[str, Float[Array, " B"]]:
        """The value of each component of the objective. `reward` is what the world answered:
        an array `[B]`, or such arrays by name if there are several `Reward` components."""
        opaque = [component.name for component in self._objective if component.opaque]
        rewards = checked_rewards(reward, opaque, sample.batch)
        known = [component for component in self.objective if not component.opaque]
        return rewards | {component.name: component.value(self, sample) for component in known}

    def value(
        self,
        sample: Sample,
        reward: ArrayLike | Mapping[str, ArrayLike] | None = None,
        weights: ArrayLike | Mapping[str, ArrayLike] | None = None,
    ) -> Float[Array, " B"]:
        """The objective, summed over its components. `weights` has what each of the named
        components counts, a number or one an example `[B]`; the others count once. An array `[B]`
        instead of a mapping is the weight of each example, whatever the component."""
        values = self.component_values(sample, reward)
        checked = checked_weights(weights, list(self.structure.inputs), sample.batch)
        values |= {name: weight * values[name] for name, weight in checked.items()}
        return sum(values.values(), jnp.zeros(sample.batch))

    # Who is whose ancestor

    def __getitem__(self, name: str) -> Node:
        place = self.structure.place.get(name)
        if place is None:
            raise KeyError(f"no node '{name}'; the nodes are {quoted(self.node_names)}")
        (node,) = self._filled((self._nodes[place],))
        return node

    @property
    def node_names(self) -> tuple[str, ...]:
        return self.structure.nodes

    @property
    def context_names(self) -> tuple[str, ...]:
        """Every name that something reads and that is no node's."""
        return self.structure.context

    @property
    def conditionals(self) -> dict[str, Node]:
        """Every layer that gets credit: the nodes, and the layers of the objective."""
        layers = {node.name: node for node in self.nodes}
        for component in self.objective:
            layers |= component.conditionals()
        return layers

    def children(self, name: str) -> tuple[str, ...]:
        return self.structure.children[name]

    def ancestors(self, component: AbstractComponent) -> frozenset[str]:
        """The nodes that the component depends on, directly or through others."""
        return self.structure.ancestors[component.name]

    def downstream(self, name: str) -> tuple[AbstractComponent, ...]:
        """The components that depend on the node, directly or through others."""
        names = set(self.structure.downstream[name])
        return self._filled(tuple(part for part in self._objective if part.name in names))

    def mediators(self, name: str, component: AbstractComponent) -> tuple[str, ...]:
        """The children of a node from which the component can be reached (ch^i in the paper)."""
        return self.structure.mediators(name, component.name)

    def _refuse_replaced(self) -> None:
        """The structure is that of the nodes and components that the graph was made of."""
        parents = {node.name: node.parents for node in self._nodes}
        names = [part.name for part in self._objective]
        if parents != self.structure.parents or names != list(self.structure.inputs):
            raise ValueError("nodes or components were replaced in a graph: make a new Graph")
