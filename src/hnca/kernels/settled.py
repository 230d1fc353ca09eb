"""Arrays that XLA for CPUs must not compute again in each fusion that reads them."""

from typing import TypeVar

import jax
from jax.experimental.xla_metadata import set_xla_metadata

Arrays = TypeVar("Arrays")  # one, or a pytree of them


def settled(arrays: Arrays) -> Arrays:
    """The arrays as something that is computed once, and their gradients too. Else XLA for CPUs
    does an exchange of axes or places again in each fusion that reads them, and all that follows in
    there number by number instead of by vectors. There an optimisation barrier is gone before
    fusions are made; a call that must not be inlined stays."""
    return jax.lax.platform_dependent(arrays, cpu=_called, default=lambda arrays: arrays)


def _called(arrays: Arrays) -> Arrays:
    with set_xla_metadata(inlineable="false"):
        return _same(arrays)


@jax.jit
def _same(arrays: Arrays) -> Arrays:
    return jax.lax.optimization_barrier(arrays)  # a call of nothing at all would be left out
