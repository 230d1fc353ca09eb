"""`bernoulli.py` for CPUs, in C++ (bernoulli.cc): its call, if it was built.

It is compiled when hnca is installed, where there is a compiler (hatch_build.py), and reached
through XLA's foreign function interface. `HNCA_NATIVE=0` switches it off.
"""

import ctypes
import os
from collections.abc import Callable
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import NamedSharding, PartitionSpec
from jaxtyping import Array, Float

from ..settled import settled

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
    return _flip(with_entropy)(logits, fired - 0.5, weight, sign)


@cache
def _flip(with_entropy: bool) -> Callable[..., list[Array]]:
    """The call, for several models under `vmap` and for batches that are spread over devices."""
    call = partial(_on_one_device, with_entropy)
    spread = custom_partitioning(call)
    tables = ", ".join(["b i"] * (1 + with_entropy))
    spread.def_partition(
        partial(_partition, call),
        sharding_rule=f"b o, b o, o i, b i -> {tables}",
        need_replication_factors=("o", "i"),
    )
    flip = jax.custom_batching.custom_vmap(spread)
    flip.def_vmap(partial(_flip_mapped, flip))
    return flip


def _flip_mapped(flip, size, batched, logits, pull, weight, sign):
    """More examples are a larger batch; other weights are one call after another, each of which
    has all threads to itself."""
    whole = lambda array, is_batched: (
        array if is_batched else jnp.broadcast_to(array[None], (size, *array.shape))
    )
    logits_batched, pull_batched, weight_batched, sign_batched = batched
    logits, pull = whole(logits, logits_batched), whole(pull, pull_batched)
    sign = whole(sign, sign_batched)
    if weight_batched:
        tables = jax.lax.map(lambda arrays: flip(*arrays), (logits, pull, weight, sign))
    else:
        flat = lambda array: array.reshape(-1, array.shape[-1])
        tables = flip(flat(logits), flat(pull), weight, flat(sign))
        tables = [table.reshape(sign.shape) for table in tables]
    return tables, [True] * len(tables)


def _on_one_device(with_entropy: bool, logits, pull, weight, sign) -> list[Array]:
    """In the call, the examples that a row of weights meets lie side by side. Their axes are
    exchanged first: XLA takes the functions of the logits by vectors in a loop of their own, and
    number by number in one that exchanges axes. (Where a batch is spread over several devices, it
    still makes one loop of the two.)"""
    exchanged = settled(_in_parts(logits))
    chance, rest = jax.nn.sigmoid(exchanged), jax.nn.sigmoid(-exchanged)
    columns = [jnp.tanh(exchanged / 2), _in_parts(pull), chance, rest]
    if with_entropy:
        columns.append(exchanged * (4 * chance * rest))
    tables = [jax.ShapeDtypeStruct(sign.shape, sign.dtype)] * (1 + with_entropy)
    call = jax.ffi.ffi_call(TARGETS[with_entropy], tables)
    return list(call(logits, *columns, weight, sign))


def _in_parts(column: Float[Array, "B O"]) -> Float[Array, "P O E"]:
    """In equal parts of up to `EXAMPLES` examples, with the axes of each exchanged."""
    parts = -(-len(column) // EXAMPLES) or 1
    examples = -(-len(column) // parts)
    whole = jnp.pad(column, [(0, parts * examples - len(column)), (0, 0)])
    return whole.reshape(parts, examples, column.shape[1]).mT


def _partition(call, mesh, arrays, tables):
    """By examples, as the results are; weights are needed whole."""
    examples = NamedSharding(mesh, PartitionSpec(tables[0].sharding.spec[0], None))
    whole = NamedSharding(mesh, PartitionSpec())
    return mesh, call, [examples] * len(tables), (examples, examples, whole, examples)
