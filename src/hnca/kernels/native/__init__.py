"""`bernoulli.py` for CPUs, in C++ (bernoulli.cc): its call, if it was built.

It is compiled when hnca is installed, where there is a compiler (hatch_build.py), and reached
through XLA's foreign function interface. `HNCA_NATIVE=0` switches it off.
"""

import ctypes
import os
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import NamedSharding, PartitionSpec
from jaxtyping import Array, Float

SOURCE = Path(__file__).with_name("bernoulli.cc")
LIBRARY = SOURCE.with_name("libhnca.kernel")
PURE = "pure JAX"
TARGETS = "hnca_bernoulli_flip", "hnca_bernoulli_flip_entropy"
EXAMPLES = 64  # of a task at most, as in the source


class Kernel(NamedTuple):
    """Which kernel makes the tables of Bernoulli layers on a CPU, in float32."""

    name: str
    why: str

    @property
    def is_native(self) -> bool:
        """Whether it is the one of this package."""
        return self.name != PURE


@cache
def kernel() -> Kernel:
    """The one in use. XLA is told of the native one, if that is it."""
    if os.environ.get("HNCA_NATIVE") == "0":
        return Kernel(PURE, "the native one is switched off by HNCA_NATIVE=0")
    if not LIBRARY.exists():
        return Kernel(PURE, "there was no C++ compiler when hnca was installed, or it failed")
    try:
        library = ctypes.CDLL(str(LIBRARY))
        library.hnca_instructions.restype = library.hnca_source.restype = ctypes.c_char_p
        if library.hnca_source().decode() != sha256(SOURCE.read_bytes()).hexdigest():
            return Kernel(PURE, "the native one is older than its source: install hnca again")
        for target in TARGETS:
            call = jax.ffi.pycapsule(getattr(library, target))
            jax.ffi.register_ffi_target(target, call, platform="cpu")
    except Exception as error:  # of another machine, or of an XLA that speaks another dialect
        return Kernel(PURE, f"the native one cannot be loaded: {error}")
    instructions = library.hnca_instructions().decode()
    return Kernel(f"native, {instructions}", "it was compiled when hnca was installed")


def kernel_of(dtype, platform: str) -> str:
    """The name of the kernel for arrays of a type, on a platform."""
    applies = platform == "cpu" and dtype == jnp.float32
    return kernel().name if applies else PURE


def bernoulli_flip(
    logits: Float[Array, "B O"],
    fired: Float[Array, "B O"],
    weight: Float[Array, "O I"],
    sign: Float[Array, "B I"],
    with_entropy: bool,
) -> list[Float[Array, "B I"]]:
    """As `kernels.bernoulli_flip`; `fired` is NaN where a logit is. The transcendental functions of
    the weights are taken in there, those of the logits here."""
    chance, rest = jax.nn.sigmoid(logits), jax.nn.sigmoid(-logits)
    columns = [logits, jnp.tanh(logits / 2), fired - 0.5, chance, rest]
    if with_entropy:
        columns.append(logits * (4 * chance * rest))
    return _call(columns, weight, sign)


@jax.custom_batching.custom_vmap
def _call(columns: list[Array], weight: Array, sign: Array) -> list[Array]:
    return _partitioned(*columns, weight, sign)


@_call.def_vmap
def _call_side_by_side(size, batched, columns, weight, sign):
    """More examples are a larger batch; other weights are one call after another, each of which
    has all threads to itself."""
    batched_columns, batched_weight, batched_sign = batched
    whole = lambda array, is_batched: (
        array if is_batched else jnp.broadcast_to(array[None], (size, *array.shape))
    )
    columns = [whole(*pair) for pair in zip(columns, batched_columns, strict=True)]
    sign = whole(sign, batched_sign)
    if batched_weight:
        tables = jax.lax.map(lambda arrays: _call(*arrays), (columns, weight, sign))
    else:
        flat = lambda array: array.reshape(-1, array.shape[-1])
        tables = _call([flat(array) for array in columns], weight, flat(sign))
        tables = [table.reshape(sign.shape) for table in tables]
    return tables, [True] * len(tables)


@custom_partitioning
def _partitioned(*arrays: Array) -> list[Array]:
    """Of a batch that is spread over devices, each does its part. In the call, the examples that a
    row of weights meets lie side by side."""
    logits, *columns, weight, sign = arrays
    tables = [jax.ShapeDtypeStruct(sign.shape, sign.dtype)] * (len(columns) - 3)
    call = jax.ffi.ffi_call(TARGETS[len(tables) - 1], tables)
    return list(call(logits, *map(_in_parts, columns), weight, sign))


def _in_parts(column: Float[Array, "B O"]) -> Float[Array, "P O E"]:
    """In equal parts of up to `EXAMPLES` examples, with the axes of each exchanged."""
    parts = -(-len(column) // EXAMPLES) or 1
    examples = -(-len(column) // parts)
    whole = jnp.pad(column, [(0, parts * examples - len(column)), (0, 0)])
    return whole.reshape(parts, examples, column.shape[1]).mT


def _partition(mesh, arrays, tables):
    """By examples, as the results are; weights are needed whole."""
    examples = NamedSharding(mesh, PartitionSpec(tables[0].sharding.spec[0], None))
    *columns, _, _ = arrays
    shardings = (*[examples] * len(columns), NamedSharding(mesh, PartitionSpec()), examples)
    return mesh, _partitioned.fun, [examples] * len(tables), shardings


def _sharding_rule(mesh, arrays, tables):
    columns, results = ", ".join(["b o"] * (len(arrays) - 2)), ", ".join(["b i"] * len(tables))
    return f"{columns}, o i, b i -> {results}", {"need_replication_factors": ("o", "i")}


_partitioned.def_partition(_partition, sharding_rule=_sharding_rule)
