"""Uniform numbers: the bits of `jax.random.uniform`, in a fraction of its time on a CPU.

There JAX keeps the 20 rounds of its generator in a loop, whose every pass goes through memory.
Written out they are one loop over the numbers, by vectors. The generator is Threefry-2x32 of Salmon
et al. (2011), "Parallel random numbers: as easy as 1, 2, 3": with words x, y and keys k,

    x <- x + y,   y <- (y rotated left) xor x        in each round
    x <- x + k_j,   y <- y + k_(j+1) + j             after every fourth, j = 1 to 5
"""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, UInt32

from .kernels.settled import settled

ROTATIONS = (13, 15, 26, 6), (17, 29, 16, 24)
PARITY = 0x1BD11BDA  # the third key is the exclusive or of the others and this
THREEFRY = "threefry2x32"
ONE = 0x3F800000  # 1.0, to whose mantissa 23 random bits are added


def draw_uniform(key: PRNGKeyArray, shape: tuple[int, ...], dtype) -> Float[Array, "..."]:
    """Numbers in [0, 1), as `jax.random.uniform` draws them."""
    if not _is_usual(key, shape, dtype):
        return jax.random.uniform(key, shape, dtype)
    numbers = jax.lax.iota(jnp.uint32, math.prod(shape)).reshape(shape)
    bits = _threefry(jax.random.key_data(key), numbers)
    return settled(jax.lax.bitcast_convert_type(bits >> 9 | ONE, jnp.float32) - 1)


def _is_usual(key: PRNGKeyArray, shape: tuple[int, ...], dtype) -> bool:
    """Whether these are single-precision numbers by JAX's own choice of generator."""
    generator = str(jax.random.key_impl(key)) == THREEFRY
    switch = jax.config.jax_threefry_partitionable  # pyright: ignore[reportAttributeAccessIssue]
    return generator and switch and dtype == jnp.float32 and math.prod(shape) < 2**32


def _threefry(key: UInt32[Array, "2"], numbers: UInt32[Array, "..."]) -> UInt32[Array, "..."]:
    """The bits of each number: both words of its block, in one."""
    keys = key[0], key[1], key[0] ^ key[1] ^ jnp.uint32(PARITY)
    x, y = jnp.zeros_like(numbers) + keys[0], numbers + keys[1]
    for j in range(1, 6):
        for rotation in ROTATIONS[(j + 1) % 2]:
            x = x + y
            y = (y << rotation | y >> (32 - rotation)) ^ x
        x, y = x + keys[j % 3], y + keys[(j + 1) % 3] + jnp.uint32(j)
    return x ^ y
