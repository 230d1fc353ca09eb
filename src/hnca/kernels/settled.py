"""Arrays that XLA for CPUs must not compute again in each fusion that reads them."""

import jax
from jax.experimental.xla_metadata import set_xla_metadata
from jaxtyping import Array, Float


def settled(array: Float[Array, "..."]) -> Float[Array, "..."]:
    """The array as something that is computed once, and its gradient too. Else XLA for CPUs does
    an exchange of axes or places again in each fusion that reads it, and all that follows in there
    number by number instead of by vectors. There an optimisation barrier is gone before fusions
    are made; a call that must not be inlined stays."""
    return jax.lax.platform_dependent(array, cpu=_called, default=lambda array: array)


def _called(array: Float[Array, "..."]) -> Float[Array, "..."]:
    with set_xla_metadata(inlineable="false"):
        return _same(array)


@jax.jit
def _same(array: Float[Array, "..."]) -> Float[Array, "..."]:
    return jax.lax.optimization_barrier(array)  # a call of nothing at all would be left out
