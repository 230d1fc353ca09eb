"""What would have been, had one unit taken another value and all else stayed.

Every answer is a table `[V, B, U]` of *changes* from what was: 0 at the value that the unit did
take. Changes lose fewer digits than the two large sums that they are the difference of.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from .convolution import Convolution
from .graph import AbstractComponent, Graph, Node, Sample, entropy_name
from .kernels import bernoulli_flip, bernoulli_switch, softmax_flip
from .units import AbstractLayer, Affine, Bernoulli, Categorical, at_least_single

CANDIDATES_AT_ONCE = 16  # evaluations of a function side by side: bounds its memory

Table = Float[Array, "V B U"]
Edge = tuple[Node, str]  # a layer in one of its places, and the parent whose units are asked
Statistic = Callable[[Float[Array, "B ..."]], Float[Array, " B"]]  # of a map's outputs


class Counterfactuals:
    """The tables of one sample. What two askers need is computed once, and the tables of a tied
    layer's places side by side: one kernel to compile, not one for each of a hundred time steps.

    With `brute_force`, everything is evaluated anew for each value of each unit.
    """

    def __init__(self, graph: Graph, sample: Sample, brute_force: bool = False):
        self.graph, self.sample, self.brute_force = graph, sample, brute_force
        self._known: dict[Hashable, list[Table]] = {}
        self._groups: dict[Hashable, list[Edge]] | None = None

    def message(self, child: str, name: str) -> Table:
        """Change of the log-probability of what the child did, for the units of `name`."""
        return self._policy(child, name)[0]

    def entropy(self, child: str, name: str) -> Table:
        """Change of the entropy of the child's policy, for the units of `name`."""
        return self._policy(child, name)[1]

    def log_prob(self, node: Node, name: str) -> Table:
        """Change of the log-probability of `node`'s values under its layer, for the units of
        its parent `name`. The node may be one of the objective's."""
        return self._tables((node, name), with_entropy=False)[0]

    def activation(
        self, map: Affine, statistic: Statistic, parents: Sequence[str], name: str
    ) -> Table:
        """Change of a statistic of a linear map's outputs, for the units of its parent `name`."""
        if self.brute_force:
            of_units = self._function_of(jax.vmap(map), parents, name)
            return self.function(lambda units: statistic(of_units(units)), name)
        outputs = jax.vmap(map)(self.graph.features(self.sample, parents))
        weight = self._columns(map, parents, name)
        return affine_change(statistic, outputs, weight, self.graph[name].layer, self.sample[name])

    def function(self, function: Callable[..., Float[Array, " B"]], name: str) -> Table:
        """Change of any function of the expanded values of `name`."""
        return function_change(function, self.graph[name].layer, self.sample[name])

    def value(self, component: AbstractComponent, name: str) -> Table:
        """Change of a component that is a function of its inputs' values and of nothing else: it
        is shown nothing else, so that what it reads besides is missed, not taken for constant."""
        sample, inputs = self.sample, self.graph.structure.inputs[component.name]
        unknown = jnp.full_like(sample.log_prob, jnp.nan)

        def value(units: Array) -> Float[Array, " B"]:
            seen = {each: sample[each] for each in inputs} | {name: units}
            try:
                return component.value(self.graph, Sample(seen, {}, unknown))
            except KeyError as error:
                who, what = f"{type(component).__name__} '{component.name}'", "no input of it"
                detail = f"reads {error}, {what}: name it in `inputs`, or write `change`"
                raise ValueError(f"{who} {detail}") from error

        return value_change(value, self.graph[name].layer, sample[name])

    def _policy(self, child: str, name: str) -> list[Table]:
        """The tables of a child's policy: log-probability, and entropy if the objective has it."""
        wanted = entropy_name(child) in self.graph.structure.inputs
        return self._tables((self.graph[child], name), with_entropy=wanted)

    def _tables(self, edge: Edge, with_entropy: bool) -> list[Table]:
        """The tables of a layer in one of its places, with those of all places like it."""

        def place(node: Node, name: str) -> Hashable:
            return id(node.layer), node.name, node.parents, name, with_entropy

        if place(*edge) not in self._known:
            edges = self._alike().get(self._kind(edge, with_entropy), [])
            edges = edges if any(place(*each) == place(*edge) for each in edges) else [edge]
            for each, tables in zip(edges, self._side_by_side(edges, with_entropy), strict=True):
                self._known[place(*each)] = tables
        return self._known[place(*edge)]

    def _alike(self) -> dict[Hashable, list[Edge]]:
        """The edges of the graph by their kind, where layers are tied."""
        if self._groups is None:
            self._groups, structure = {}, self.graph.structure
            for child, node in self.graph.conditionals.items() if structure.tied else ():
                wanted = child in structure.place and entropy_name(child) in structure.inputs
                for name in node.parents:
                    if name in structure.place:
                        kind = self._kind((node, name), wanted)
                        self._groups.setdefault(kind, []).append((node, name))
        return self._groups

    def _kind(self, edge: Edge, with_entropy: bool) -> Hashable:
        """What edges have in common that one kernel can serve: the layers, and the shapes."""
        (node, name), nodes = edge, self.graph.structure.place
        shape = lambda each: (self.sample[each].shape, self.sample[each].dtype)
        layer = lambda each: id(self.graph.layer(each)) if each in nodes else None
        seen = tuple((layer(parent), shape(parent)) for parent in node.parents)
        return id(node.layer), node.parents.index(name), seen, shape(node.name), with_entropy

    def _side_by_side(self, edges: Sequence[Edge], with_entropy: bool) -> list[list[Table]]:
        """The tables of edges of one kind, as if they were examples of one batch."""
        node, name = edges[0]
        if len(edges) == 1:
            return [self._layer(node, name, with_entropy)]
        rows = [(each.name, *each.parents) for each, _ in edges]
        columns = zip(rows[0], zip(*rows, strict=True), strict=True)
        values = {first: jnp.concatenate([self.sample[n] for n in all]) for first, all in columns}
        batch = Sample(values, {}, jnp.zeros(len(edges) * self.sample.batch))
        joined = Counterfactuals(self.graph, batch, self.brute_force)
        tables = joined._layer(node, name, with_entropy)
        parts = [jnp.split(table, len(edges), axis=1) for table in tables]
        return [list(each) for each in zip(*parts, strict=True)]

    def _layer(self, node: Node, name: str, with_entropy: bool) -> list[Table]:
        """The tables of a layer, by a fast kernel if there is one."""
        child, parent = node.layer, self.graph[name].layer
        taken, values = self.sample[name], self.sample[node.name]
        # the kernels know these two by heart, but not what a subclass may have overridden
        stock = {type(child), type(parent)} <= {Bernoulli, Categorical}
        if stock and not self.brute_force and is_local(node, parent):
            return self._local(node, name, with_entropy)
        statistics: list[Statistic] = [lambda logits: child.log_prob(logits, values)]
        statistics += [child.entropy] * with_entropy
        map: Any = child.logits
        if self.brute_force or type(map) is not Affine:  # a subclass may be another map
            of_units = self._function_of(child, node.parents, name)
            functions = [lambda units, s=s: s(of_units(units)) for s in statistics]
            return [self.function(function, name) for function in functions]
        logits = child(self.graph.features(self.sample, node.parents))
        weight = self._columns(map, node.parents, name)
        dtype = jnp.promote_types(jnp.result_type(logits, weight), jnp.float32)
        logits, weight = logits.astype(dtype), weight.astype(dtype)
        match child, parent:
            case Bernoulli(), _ if stock:
                over = lambda dense, logits, fired, units: dense(logits, fired, weight, units)
                fired = child.fired(values).astype(dtype)
                return bernoulli_tables(over, logits, fired, parent, taken, with_entropy)
            case Categorical(), Bernoulli() if stock:
                by_unit = _moves(weight, parent).reshape(child.units, child.categories, -1)
                sign = _sign(parent, taken, dtype)
                flip = softmax_flip(logits, child.choice(values), by_unit, sign)
                first, rest = [_flip_table(flip, parent, taken)], statistics[1:]
            case _:
                first, rest = [], statistics
        return first + [affine_change(s, logits, weight, parent, taken) for s in rest]

    def _local(self, node: Node, name: str, with_entropy: bool) -> list[Table]:
        """The tables of Bernoulli units whose logits are a convolution of `name` alone."""
        child, parent = node.layer, self.graph[name].layer
        assert isinstance(child, Bernoulli)
        assert isinstance(child.logits, Convolution)
        logits = at_least_single(child(self.graph.features(self.sample, node.parents)))
        fired = child.fired(self.sample[node.name]).astype(logits.dtype)
        over, taken = child.logits.tables, self.sample[name]
        return bernoulli_tables(over, logits, fired, parent, taken, with_entropy)

    def _columns(self, map: Affine, parents: Sequence[str], name: str) -> Float[Array, "O width"]:
        """The part of a map's matrix that meets the units of one parent."""
        before = parents[: parents.index(name)]
        start = self.graph.features(self.sample, before).shape[1]
        return map.weight[:, start : start + self.graph[name].layer.width]

    def _function_of(
        self, map: Callable, parents: Sequence[str], name: str
    ) -> Callable[..., Float[Array, "B ..."]]:
        """A map of the parents side by side, as a function of one parent's expanded values."""
        expanded = {parent: self.graph.expand(self.sample, parent) for parent in parents}

        def outputs(units: Float[Array, "B U *K"]) -> Float[Array, "B ..."]:
            parts = (expanded | {name: units}).values()
            features = [part.reshape(self.sample.batch, -1) for part in parts]
            return map(jnp.concatenate(features, axis=1))

        return outputs


def is_local(node: Node, parent: AbstractLayer) -> bool:
    """Whether each unit of the parent stands at a place of the picture that Bernoulli units see
    through a convolution, and they read nothing else. Else their tables are those of any map."""
    map, categories = node.layer.logits, parent.width // parent.units
    if not (type(map) is Convolution and isinstance(node.layer, Bernoulli)):
        return False
    return len(node.parents) == 1 and map.image[-1] % categories == 0


def bernoulli_tables(
    over: Callable[..., list[Float[Array, "*V B U"]]],
    logits: Float[Array, "B O"],
    fired: Float[Array, "B O"],
    parent: AbstractLayer,
    taken: Array,
    with_entropy: bool,
) -> list[Table]:
    """The tables of Bernoulli units by the kernels for a matrix. `over` applies them: to the one
    matrix of an `Affine`, or all over a `Convolution`."""
    if isinstance(parent, Bernoulli):

        def flip(logits, fired, weight, sign):
            moves = _moves(weight.astype(logits.dtype), parent)
            return bernoulli_flip(logits, fired, moves, sign, with_entropy)

        changes = over(flip, logits, fired, _sign(parent, taken, logits.dtype))
        return [_flip_table(change, parent, taken) for change in changes]
    assert isinstance(parent, Categorical)

    def switch(logits, fired, weight, category):
        by_unit = weight.astype(logits.dtype).reshape(len(weight), -1, parent.categories)
        return bernoulli_switch(logits, fired, by_unit.swapaxes(1, 2), category, with_entropy)

    return over(switch, logits, fired, parent.choice(taken))


def affine_change(
    statistic: Statistic,
    outputs: Float[Array, "B ..."],
    weight: Float[Array, "O width"],
    layer: AbstractLayer,
    values: Array,
) -> Table:
    """Change of any statistic of outputs that are linear in the layer's values: a unit's value
    moves them by the difference of two columns of the matrix. It costs an evaluation of the
    statistic for each other value of each unit, a unit at a time: memory like `[V, B, O]`."""
    effects, choice = layer.effects(weight), layer.choice(values)  # [V, U, O], [B, U]
    actual = statistic(outputs)

    def change(unit: Int[Array, ""]) -> Float[Array, "others B"]:
        effect, taken = effects[:, unit], choice[:, unit]  # [V, O], [B]
        moves = effect[_other_choices(taken, layer)] - effect[taken][None]  # [others, B, O]
        moved = outputs[None] + moves.reshape(-1, *outputs.shape)
        return jax.vmap(statistic)(moved) - actual[None]

    changes = jax.lax.map(change, jnp.arange(layer.units))
    return _placed(jnp.moveaxis(changes, 0, -1), choice)


def function_change(
    function: Callable[[Float[Array, "B U *K"]], Float[Array, " B"]],
    layer: AbstractLayer,
    values: Array,
) -> Table:
    """Change of any function of a layer's expanded values. It costs an evaluation of the function
    for each other value of each unit, `CANDIDATES_AT_ONCE` at a time."""
    expanded = layer.expand(values)
    assigned = lambda unit, to: function(layer.assign(expanded, unit, to))
    return _evaluated(assigned, function(expanded), layer, layer.choice(values))


def value_change(
    function: Callable[[Array], Float[Array, " B"]], layer: AbstractLayer, values: Array
) -> Table:
    """The same of any function of a layer's values as a `Sample` has them."""
    choice = layer.choice(values)

    def assigned(unit: Int[Array, ""], to: Int[Array, " B"]) -> Float[Array, " B"]:
        return function(layer.chosen(choice.at[:, unit].set(to)).astype(values.dtype))

    return _evaluated(assigned, function(values), layer, choice)


def _evaluated(
    assigned: Callable[[Int[Array, ""], Int[Array, " B"]], Float[Array, " B"]],
    actual: Float[Array, " B"],
    layer: AbstractLayer,
    choice: Int[Array, "B U"],
) -> Table:
    """What comes of each other choice of each unit, one evaluation each, less what was."""
    others = layer.choices - 1

    def change(candidate: Int[Array, ""]) -> Float[Array, " B"]:
        unit, other = candidate // others, candidate % others
        to = _other_choices(choice[:, unit], layer)[other]
        return assigned(unit, to) - actual

    changes = jax.lax.map(change, jnp.arange(layer.units * others), batch_size=CANDIDATES_AT_ONCE)
    return _placed(changes.reshape(layer.units, others, -1).transpose(1, 2, 0), choice)


def _other_choices(taken: Int[Array, " B"], layer: AbstractLayer) -> Int[Array, "others B"]:
    """The choices that were not taken, in the order in which they follow it."""
    return (taken[None] + jnp.arange(1, layer.choices)[:, None]) % layer.choices


def _placed(changes: Float[Array, "others B U"], choice: Int[Array, "B U"]) -> Table:
    """The changes for the other choices, at their places in a table."""
    from_taken = jnp.concatenate([jnp.zeros_like(changes[:1]), changes])
    places = (jnp.arange(len(from_taken))[:, None, None] - choice[None]) % len(from_taken)
    return jnp.take_along_axis(from_taken, places, axis=0)


def _moves(weight: Float[Array, "O U"], layer: Bernoulli) -> Float[Array, "O U"]:
    """What firing adds to the outputs."""
    rest, active = layer.values
    return weight * (active - rest)


def _sign(layer: Bernoulli, values: Float[Array, "B U"], dtype) -> Float[Array, "B U"]:
    """The sign with which a flip of each unit adds that: 1 or -1, not what rounding made of it."""
    return jnp.sign(1 - 2 * layer.fired(values)).astype(dtype)


def _flip_table(
    change: Float[Array, "B U"], layer: Bernoulli, values: Float[Array, "B U"]
) -> Table:
    """The change at the value that the unit did not take."""
    return change[None] * (1 - layer.indicator(values))
