"""Networks in time: the same layers at every step."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Num

from .graph import AbstractComponent, Node
from .objective import LogProb
from .units import AbstractLayer

Step = Callable[[int], Sequence[Node | AbstractComponent]]


def unroll(step: Step, length: int) -> tuple[list[Node], list[AbstractComponent]]:
    """The nodes and the components of so many time steps, for a `Graph`.

    `step` is a function of the time 0, 1, ... that returns the parts of that step, in any order.
    Their names tell the time, as in `h@3`. A layer that it returns again is tied to the place
    where it came first: one set of parameters, credit for every place, gradients that add up.

    A recurrent network that is to tell what it has seen, at every step:

        cell, readout = Bernoulli(2 + 8, 8, key=k1), Bernoulli(8, 2, key=k2)

        def step(t):
            return [
                Node(f"h@{t}", cell, parents=[f"x@{t}", f"h@{t - 1}"]),
                LogProb(f"y@{t}", readout, given=[f"h@{t}"]),
            ]

        graph = Graph(*unroll(step, 5))
        context = by_time(x=x, y=y)  # of shape [B, 5, 2]
        sample = graph.sample(key, **context, **{"h@-1": jnp.zeros((B, 8))})

    What no step has made, like `h@-1`, the state at the start, is a context array. Discounts and
    masks are weights of components: `weights={"p:y@3": 0.9**3 * is_there[:, 3]}`.

    >>> cell = hnca.Bernoulli(2, 2, key=key)
    >>> step = lambda t: [hnca.Node(f"h@{t}", cell, parents=[f"h@{t - 1}"])]
    >>> hnca.Graph(*hnca.unroll(step, 3)).node_names
    ('h@0', 'h@1', 'h@2')
    """
    if length < 1:
        raise ValueError(f"unroll: needs at least 1 step, not {length}")
    made = [part for time in range(length) for part in _parts(step(time), time)]
    nodes = [part for part in made if isinstance(part, Node)]
    objective = [part for part in made if not isinstance(part, Node)]
    first: dict[int, str] = {}  # the name of the part in which a layer was met first

    def place(layer: AbstractLayer, name: str) -> AbstractLayer | str:
        owner = first.setdefault(id(layer), name)
        return layer if owner == name else owner

    def tied(part: Any) -> Any:
        match part:
            case Node(owner=None):
                return Node(part.name, place(part.layer, part.name), part.parents)
            case LogProb(owner=None):
                return LogProb(part.of, place(part.layer, part.name), part.given)
            case _:
                return part

    return [tied(node) for node in nodes], [tied(part) for part in objective]


def _parts(given: Any, time: int) -> Sequence[Node | AbstractComponent]:
    """The parts of a step, if that is what was made."""
    if not isinstance(given, Sequence):
        wrong = f"a {type(given).__name__}"
    elif others := [part for part in given if not isinstance(part, Node | AbstractComponent)]:
        wrong = f"one with a {type(others[0]).__name__}"
    else:
        return given
    raise ValueError(f"unroll: step {time} must be a list of nodes and components, not {wrong}")


def by_time(**arrays: ArrayLike) -> dict[str, Num[Array, "B ..."]]:
    """The steps of arrays `[B, T, ...]`, each under a name of its own: `x@0`, `x@1`, ...

    >>> list(hnca.by_time(x=jnp.ones((5, 3, 2))))
    ['x@0', 'x@1', 'x@2']
    """
    steps = {}
    for name, given in arrays.items():
        array = jnp.asarray(given)
        if array.ndim < 2:
            wanted = f"must have shape [batch, time, ...], not {list(array.shape)}"
            raise ValueError(f"'{name}' {wanted}")
        steps |= {f"{name}@{time}": array[:, time] for time in range(array.shape[1])}
    return steps


def over_time(values: Mapping[str, Array], name: str) -> Num[Array, "B T ..."]:
    """The inverse: what `name` was at the times 0, 1, ..., as one array.

    >>> hnca.over_time(hnca.by_time(x=jnp.ones((5, 3, 2))), "x").shape
    (5, 3, 2)
    """
    found = []
    while f"{name}@{len(found)}" in values:
        found.append(values[f"{name}@{len(found)}"])
    if not found:
        raise KeyError(f"no '{name}@0' among {', '.join(values)}")
    return jnp.stack(found, axis=1)
