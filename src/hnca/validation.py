"""What is refused, and the words it is refused with."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from graphlib import CycleError, TopologicalSorter

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, ArrayLike, PyTree

CODING_ERROR = 1e-3  # what float32 may lose of the difference of a unit's two values

# The graph


def check_unique(names: Sequence[str]) -> None:
    """Refuses a name that was taken before."""
    taken = set()
    for name in names:
        if name in taken:
            raise ValueError(f"duplicate name '{name}': nodes and components need distinct names")
        taken.add(name)


def checked_names(who: str, names: Sequence[str]) -> tuple[str, ...]:
    """The names of parents, each once."""
    if isinstance(names, str):
        raise TypeError(f"{who}: pass a list of names, as in ['{names}'], not a string")
    if len(set(names)) < len(names):
        raise ValueError(f"{who}: the same name twice in {list(names)}")
    return tuple(names)


def parents_first(parents: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """The names in an order in which parents stand before their children."""
    edges = {name: [p for p in listed if p in parents] for name, listed in parents.items()}
    try:
        return tuple(TopologicalSorter(edges).static_order())
    except CycleError as error:
        cycle = " -> ".join(f"'{name}'" for name in error.args[1])
        raise ValueError(f"the nodes form a cycle: {cycle}") from None


def check_width(who: str, inputs: int, parents: Sequence[str], widths: Mapping[str, int]) -> None:
    """Refuses a layer whose inputs do not fit its parents side by side. The widths of context
    arrays are known only once there are some; before that, what is left over is theirs."""
    known = {name: widths[name] for name in parents if name in widths}
    unknown = len(parents) - len(known)
    left = inputs - sum(known.values())
    if left < unknown or (left > 0 and not unknown):
        sizes = " and ".join(f"'{name}' of width {width}" for name, width in known.items())
        raise ValueError(f"{who} takes {inputs} inputs, but its parents are {sizes or 'none'}")


def check_untied(parts: Mapping[str, PyTree]) -> None:
    """Refuses an array that stands in two places: after one update there would be two."""
    owner: dict[int, str] = {}
    for name, part in parts.items():
        for leaf in jax.tree.leaves(eqx.filter(part, eqx.is_inexact_array)):
            if (first := owner.setdefault(id(leaf), name)) != name:
                shared = (
                    f"'{first}' and '{name}' share parameters, which an update would tear apart"
                )
                how = (
                    f"to tie layers, pass the name '{first}' as the layer of '{name}'; "
                    "copy what is not to be tied, or is not a layer's"
                )
                raise ValueError(f"{shared}: {how}")


def warn_untrained(who: str, what: str, map: PyTree) -> None:
    """Warns of a map without parameters: what a function closes over, nobody trains."""
    if not jax.tree.leaves(eqx.filter(map, eqx.is_inexact_array)):
        text = f"its {what} have no parameters, so nothing in them is trained"
        warnings.warn(f"{who}: {text}: wrap them in hnca.Fixed if that is meant", stacklevel=5)


# What a caller brings


def checked_arrays(
    given: Mapping[str, ArrayLike], wanted: Sequence[str], nodes: Sequence[str]
) -> dict[str, Array]:
    """The wanted arrays, all there and of one batch size, or an error that names the culprit."""
    known = set(wanted)
    for name in given:
        if name not in known:
            raise ValueError(f"unexpected array '{name}': {_hint(name, wanted, nodes)}")
    for name in wanted:
        if name not in given:
            raise ValueError(f"missing array '{name}': {_whose(name, wanted, nodes)}")
    arrays = {name: jnp.asarray(given[name]) for name in wanted}
    for name, array in arrays.items():
        if array.ndim == 0 or array.size == 0:
            raise ValueError(f"'{name}' must have shape [batch, ...], not {list(array.shape)}")
    if len({len(array) for array in arrays.values()}) > 1:
        sizes = ", ".join(f"'{name}' has {len(array)}" for name, array in arrays.items())
        raise ValueError(f"all arrays must have the same batch size, but {sizes}")
    return arrays


def _whose(name: str, wanted: Sequence[str], nodes: Sequence[str]) -> str:
    if name not in nodes and (close := get_close_matches(name, nodes, n=1)):
        return f"no node has that name, so it is a context array; did you mean node '{close[0]}'?"
    return f"this graph needs {quoted(wanted)}"


def _hint(name: str, wanted: Sequence[str], nodes: Sequence[str]) -> str:
    if name in nodes:
        return "that is a node, whose values are drawn, so no context array may have its name"
    close = get_close_matches(name, wanted, n=1)
    return f"did you mean '{close[0]}'?" if close else f"this graph needs {quoted(wanted)}"


def checked_rewards(
    reward: ArrayLike | Mapping[str, ArrayLike] | None, wanted: Sequence[str], batch: int
) -> dict[str, Array]:
    """The rewards by the name of their component: no more and no fewer, `[batch]` each."""
    if reward is None:
        given = {}
    elif isinstance(reward, Mapping):
        given = dict(reward)
    elif len(wanted) == 1:
        given = {wanted[0]: reward}
    elif wanted:
        raise ValueError(f"pass rewards by name, as reward={{...}} with {quoted(wanted)}")
    else:
        raise ValueError("unexpected reward: the objective has no Reward component")
    if missing := [name for name in wanted if name not in given]:
        raise ValueError(f"missing reward {quoted(missing)}: pass reward=, one number an example")
    if extra := [name for name in given if name not in wanted]:
        raise ValueError(f"unexpected reward {quoted(extra)}: no such Reward component")
    rewards = {name: jnp.asarray(array, float) for name, array in given.items()}
    for name, array in rewards.items():
        if array.shape != (batch,):
            shapes = f"shape [{batch}], one number an example, not {list(array.shape)}"
            raise ValueError(f"reward '{name}' must have {shapes}")
    return rewards


def checked_weights(
    weights: ArrayLike | Mapping[str, ArrayLike] | None, names: Sequence[str], batch: int
) -> dict[str, Array]:
    """The weights of components by their names, `[batch]` each. What has none counts once."""
    if weights is None:
        return {}
    by_name = isinstance(weights, Mapping)
    given = dict(weights) if by_name else dict.fromkeys(names, weights)
    if extra := [name for name in given if name not in names]:
        raise ValueError(f"unexpected weight {quoted(extra)}: the components are {quoted(names)}")
    arrays = {name: jnp.asarray(weight, float) for name, weight in given.items()}
    for name, array in arrays.items():
        if array.shape not in ((), (batch,)):
            who = f"weight '{name}'" if by_name else "weights"
            shapes = f"[{batch}], one number an example, not {list(array.shape)}"
            raise ValueError(f"{who} must be a number or have shape {shapes}")
    return {name: jnp.broadcast_to(array, (batch,)) for name, array in arrays.items()}


def check_shape(name: str, values: Array, shape: tuple[int, ...]) -> None:
    """Refuses a batch of anything but this shape."""
    if values.shape[1:] != shape:
        wanted = ", ".join(["batch", *map(str, shape)])
        raise ValueError(f"'{name}': values must have shape [{wanted}], not {list(values.shape)}")


def check_coding(values: Sequence[int | float]) -> None:
    """Refuses a pair of values that float32 could not tell apart, or not well enough."""
    if len(values) != 2 or values[0] == values[1]:
        raise ValueError(f"Bernoulli: values must be two different numbers, not {values}")
    with np.errstate(over="ignore", invalid="ignore"):
        rest, active = np.asarray(values, np.float32)
        fired = (active - rest) / np.float32(values[1] - values[0])  # 1, if nothing is lost
    if not (np.isfinite(fired) and abs(fired - 1) < CODING_ERROR):
        raise ValueError(f"Bernoulli: values must be finite and distinct in float32, not {values}")


def check_between(name: str, values: Array, ends: Sequence[int | float]) -> None:
    """Refuses targets beyond the two values of a coding, where they can be seen (not under jit)."""
    if not isinstance(values, Tracer):
        exact = jnp.issubdtype(values.dtype, jnp.floating)
        low, high = np.sort(np.asarray(ends, values.dtype if exact else None))  # rounded likewise
        seen = np.asarray(values)
        wrong = seen[~((seen >= low) & (seen <= high))]
        if wrong.size:
            between = f"between {low:g} and {high:g}"
            raise ValueError(f"'{name}': a target lies {between}, not {wrong.flat[0]}")


def check_choices(name: str, values: Array, choices: Sequence[int | float]) -> None:
    """Refuses values that a unit cannot take, where they can be seen (not under jit)."""
    if not isinstance(values, Tracer):
        seen = np.asarray(values)
        allowed = np.asarray(choices, seen.dtype if seen.dtype.kind == "f" else None)
        wrong = seen[~np.isin(seen, allowed)]
        if wrong.size:
            raise ValueError(f"'{name}': a unit takes one of {list(choices)}, not {wrong.flat[0]}")


def quoted(names: Iterable[str]) -> str:
    """The names as they stand in a message."""
    return ", ".join(f"'{name}'" for name in names) or "none"
