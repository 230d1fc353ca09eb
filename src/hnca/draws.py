"""Random numbers: the bits of `jax.random`, in a fraction of its time on a CPU.

There JAX keeps the 20 rounds of its generator in a loop, whose every pass goes through memory.
Written out they are one loop over the numbers, by vectors. The generator is Threefry-2x32 of Salmon
et al. (2011), "Parallel random numbers: as easy as 1, 2, 3": with words x, y and keys k,

    x <- x + y,   y <- (y rotated left) xor x        in each round
    x <- x + k_j,   y <- y + k_(j+1) + j             after every fourth, j = 1 to 5
"""

import math
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, UInt32

from .kernels.settled import settled

ROTATIONS = (13, 15, 26, 6), (17, 29, 16, 24)
PARITY = 0x1BD11BDA  # the third key is the exclusive or of the others and this
THREEFRY = "threefry2x32"
ONE = 0x3F800000  # 1.0, to whose mantissa 23 random bits are added


def draw_bernoulli(key: Array, chance: Float[Array, "..."]) -> Bool[Array, "..."]:
    """True with these probabilities, as `jax.random.bernoulli` draws it."""
    return draw_uniform(key, chance.shape, chance.dtype) < chance


def draw_uniform(key: Array, shape: tuple, dtype) -> Float[Array, "..."]:
    """Numbers in [0, 1), as `jax.random.uniform` draws them."""
    if not _is_usual(key, shape, dtype):
        return jax.random.uniform(key, shape, dtype)
    return settled(_single(jax.random.key_data(key), shape))


def draw_categorical(key: Array, logits: Float[Array, "... K"]) -> Int[Array, "..."]:
    """Categories with these logits, as `jax.random.categorical` draws them."""
    return jnp.argmax(draw_gumbel(key, logits.shape, logits.dtype) + logits, axis=-1)


def draw_gumbel(key: Array, shape: tuple, dtype) -> Float[Array, "..."]:
    """Numbers of Gumbel's distribution, as `jax.random.gumbel` draws them."""
    finer = jax.config.jax_high_dynamic_range_gumbel  # pyright: ignore[reportAttributeAccessIssue]
    if finer or not _is_usual(key, shape, dtype):
        return jax.random.gumbel(key, shape, dtype)
    positive = jnp.maximum(draw_uniform(key, shape, dtype), jnp.finfo(dtype).tiny)
    return -jnp.log(-jnp.log(positive))


def _is_usual(key: Array, shape: tuple, dtype) -> bool:
    """Whether these are single-precision numbers of one key, by JAX's own choice of generator. The
    rest is for JAX to draw, or to refuse."""
    generator = str(jax.random.key_impl(key)) == THREEFRY
    switch = jax.config.jax_threefry_partitionable  # pyright: ignore[reportAttributeAccessIssue]
    if not (generator and switch and dtype == jnp.float32):
        return False
    counted = all(isinstance(size, int) for size in shape)  # `jax.export` has sizes with names
    return jax.random.key_data(key).shape == (2,) and counted and math.prod(shape) < 2**32


@partial(jax.jit, static_argnums=1, inline=True)
def _single(key: UInt32[Array, "2"], shape: tuple[int, ...]) -> Float[Array, "..."]:
    numbers = jnp.zeros(shape, jnp.uint32)
    for axis in range(len(shape)):  # each device can count its own part of a batch
        place = jax.lax.broadcasted_iota(jnp.uint32, shape, axis)
        numbers = numbers + place * jnp.uint32(math.prod(shape[axis + 1 :]))
    bits = _threefry(key, numbers)
    return jax.lax.bitcast_convert_type(bits >> 9 | ONE, jnp.float32) - 1


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
