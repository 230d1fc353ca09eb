"""Layers that stand in several places of a graph: one set of parameters, and its name elsewhere."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeVar

import equinox as eqx
import jax
from jaxtyping import PyTree

from .units import AbstractLayer
from .validation import quoted

Part = TypeVar("Part", bound=PyTree)  # a node or a component


class Tied(eqx.Module):
    """In the place of a layer: the layer of the part that has this name. A graph stores the name
    alone, so that its leaves have each parameter once, and fills in the layer where it is asked
    for the part."""

    name: str = eqx.field(static=True)
    layer: AbstractLayer | None = None


Place = AbstractLayer | Tied  # what stands where a layer can


def as_place(layer: Place | str) -> Place:
    """A layer, or the name of the part that has it."""
    return Tied(layer) if isinstance(layer, str) else layer


def layer_in(who: str, place: Place) -> AbstractLayer:
    """The layer itself."""
    if not isinstance(place, Tied):
        return place
    if place.layer is None:
        raise ValueError(f"{who} has the layer of '{place.name}': only its graph knows it")
    return place.layer


def filled(part: Part, layer_of: Callable[[str], AbstractLayer]) -> Part:
    """The part with the layers that it has by name."""
    fill = lambda leaf: Tied(leaf.name, layer_of(leaf.name)) if _is_tied(leaf) else leaf
    return jax.tree.map(fill, part, is_leaf=_is_tied)


def tied_to(part: PyTree) -> tuple[str, ...]:
    """The names of the parts whose layers it has."""
    return tuple(leaf.name for leaf in jax.tree.leaves(part, is_leaf=_is_tied) if _is_tied(leaf))


def _is_tied(leaf: PyTree) -> bool:
    return isinstance(leaf, Tied)


def by_owner(parts: Sequence[Part], owned: Sequence[str]) -> tuple[Part, ...]:
    """The parts, each with the names of the owners of its layers: not the layers, nor the names of
    others that are tied themselves. `owned` has the names of the parts that have a layer."""
    names = {part.name: tied_to(part) for part in parts}
    order, known = {name: place for place, name in enumerate(names)}, set(owned)

    def owner(name: str) -> str:
        way = [name]
        while further := names[way[-1]]:
            named, *more = further
            if more:
                raise ValueError(f"'{way[-1]}' can have one layer of others, not {quoted(further)}")
            if named not in known:
                wrong = f"'{way[-1]}' is to have the layer of '{named}', but there is none"
                raise ValueError(f"{wrong}; the layers are those of {quoted(owned)}")
            way.append(named)
            if named in way[:-1]:
                circle = " -> ".join(f"'{each}'" for each in way)
                raise ValueError(f"the layers are a cycle of names: {circle}; one must be a layer")
        for one, other in pairwise(way):
            if order[other] > order[one]:
                how = f"bring the layer with '{one}', and its name with '{other}'"
                raise ValueError(f"'{one}' has the layer of '{other}', which comes later: {how}")
        return way[-1]

    return tuple(_named(part, owner(part.name)) if names[part.name] else part for part in parts)


def _named(part: Part, owner: str) -> Part:
    name = lambda leaf: Tied(owner) if _is_tied(leaf) else leaf
    return jax.tree.map(name, part, is_leaf=_is_tied)
