"""Maps from other libraries as the logits of a layer: what is taken, and what is refused."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, Float, PyTree

NEITHER = "a layer's map has no key (dropout) and no state (running statistics): bring it without"
ASKS = re.compile(r"\b(key|state|immutable|\w*rng\w*)\b", re.IGNORECASE)  # in a foreign error


class Applied(eqx.Module):
    """A function of parameters and inputs, with its parameters: `logits=Applied(f, parameters)`
    has the logits `f(parameters, x)`, and trains every float array in `parameters`. The way in for
    linen (`Applied(module.apply, variables)`), for haiku, and for a function of one's own.

    >>> weights = {"w": jnp.ones((2, 6))}
    >>> map = hnca.Applied(lambda weights, x: weights["w"] @ x, weights)
    >>> hnca.Node("h", hnca.Bernoulli(6, 2, logits=map), parents=["x"]).layer(x).shape
    (5, 2)
    """

    parameters: PyTree
    function: Callable = eqx.field(static=True)

    def __init__(self, function: Callable, parameters: PyTree):
        if isinstance(parameters, Mapping) and "params" in parameters:  # the variables of linen
            state = sorted(name for name in parameters if name != "params")
            if state:
                raise ValueError(f"Applied: these variables have a state, {state}: {NEITHER}")
        self.function, self.parameters = function, parameters

    def __call__(self, x: Float[Array, " inputs"]) -> Any:
        return self.function(self.parameters, x)


def refuse_state(who: str, map: PyTree) -> None:
    """Refuses an nnx module that keeps something besides parameters: its float arrays would be
    trained as if they were some."""
    for leaf in jax.tree.leaves(map, is_leaf=lambda leaf: bool(_nnx_kinds(leaf))):
        kinds = _nnx_kinds(leaf)
        if kinds and "Param" not in kinds:
            raise ValueError(f"{who}: its logits keep a {kinds[0]}: {NEITHER}")


def _nnx_kinds(leaf: PyTree) -> list[str]:
    """The classes of an nnx variable, the most special first; none for anything else."""
    kinds = [kind for kind in type(leaf).__mro__ if kind.__module__.startswith("flax.")]
    names = [kind.__name__ for kind in kinds]
    return names if "Variable" in names else []


def explained(error: Exception) -> str:
    """What a map says when it is called with its inputs alone, and why that is."""
    return f"{error} ({NEITHER})" if ASKS.search(str(error)) else str(error)
