"""Sums over many outputs, logarithms of products of many factors, and the size of weights."""

import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

# Of products on which a posterior depends: accelerators round the factors to less by default.
EXACT = jax.lax.Precision.HIGHEST


def largest_weight(weight: Float[Array, "..."]) -> Float[Array, ""]:
    """The largest |w|, by which a kernel chooses its form; NaN if there is one, which is not below
    any limit. Of weights side by side under `vmap` it is the largest of all, so that there is still
    one choice: one for each model would make XLA compute every form for all of them."""
    return _largest(jax.lax.stop_gradient(weight))


@jax.custom_batching.custom_vmap
def _largest(weight: Array) -> Array:
    return jnp.max(jnp.abs(weight))


@_largest.def_vmap
def _largest_of_all(size: int, batched: list[bool], weight: Array) -> tuple[Array, bool]:
    return _largest(weight), False


def with_nans(values: Float[Array, "B O"], logits: Float[Array, "B O"]) -> Float[Array, "B O"]:
    """What outputs did, or NaN where a logit is: a product of it with the weights then makes an
    example's whole table NaN. Here it costs B x O, in `log_product` it would cost each edge."""
    return jnp.where(jnp.isnan(logits), logits, values)


def varying_like(table: Float[Array, "B I"], *arrays: Array) -> Float[Array, "B I"]:
    """The table, said to vary along the axes of a mesh that these arrays vary along: within
    `jax.shard_map`, what a foreign function returns does not say so by itself."""
    axes = lambda array: jax.typeof(array).manual_axis_type.varying
    missing = frozenset().union(*map(axes, arrays)) - axes(table)
    return jax.lax.pcast(table, tuple(missing), to="varying")


def blocks(rows: int, *arrays: Float[Array, "O ..."]) -> list[Float[Array, "blocks rows ..."]]:
    """Cuts the leading axis of each array into blocks of about `rows`, padded with zeros."""
    outputs = len(arrays[0])
    count = -(-outputs // rows)
    rows = -(-outputs // count)
    padding = count * rows - outputs
    padded = [jnp.pad(a, [(0, padding)] + [(0, 0)] * (a.ndim - 1)) for a in arrays]
    return [a.reshape(count, rows, *a.shape[1:]) for a in padded]


def sum_blocks(
    body: Callable[..., PyTree], shape: PyTree, arrays: Sequence[Float[Array, "blocks rows ..."]]
) -> PyTree:
    """Sums body(block of each array) over the blocks. `shape` is a pytree like the sum."""
    if len(arrays[0]) == 1:
        return body(*(array[0] for array in arrays))

    def add(total, block):
        return jax.tree.map(jnp.add, total, body(*block)), None

    return jax.lax.scan(add, jax.tree.map(jnp.zeros_like, shape), tuple(arrays))[0]


def log_product(factors: Sequence[Float[Array, "..."]], group: int) -> Float[Array, "..."]:
    """The logarithm of a product of positive factors: one logarithm for all of them. Any `group`
    of factors must multiply to a normal number; after each, the exponent is set aside. That of a
    NaN is lost with it: who calls this carries NaN by `with_nans`."""
    total, exponent = _product(factors[:group]), jnp.zeros((), int)
    for start in range(group, len(factors), group):
        total, power = _split_exponent(total)
        exponent = exponent + power
        total = total * _product(factors[start : start + group])
    return jnp.log(total) + exponent.astype(total.dtype) * math.log(2)


def _product(factors: Sequence[Float[Array, "..."]]) -> Float[Array, "..."]:
    """By neighbours: short chains of dependence keep the processor's pipelines full."""
    factors = list(factors)
    while len(factors) > 1:
        pairs = [a * b for a, b in zip(factors[::2], factors[1::2], strict=False)]
        factors = pairs + factors[2 * len(pairs) :]
    return factors[0]


def _split_exponent(x: Float[Array, "..."]) -> tuple[Float[Array, "..."], Int[Array, "..."]]:
    """A positive normal number as mantissa in [1, 2) and exponent, by its bits."""
    info = jnp.finfo(x.dtype)
    bits = jax.lax.bitcast_convert_type(x, jnp.int32 if info.bits == 32 else jnp.int64)
    bias = info.maxexp - 1
    mantissa = (bits & ((1 << info.nmant) - 1)) | (bias << info.nmant)
    return jax.lax.bitcast_convert_type(mantissa, x.dtype), (bits >> info.nmant) - bias
