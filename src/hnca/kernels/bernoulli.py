"""A Bernoulli child, when a binary unit of its parent flips.

A flip adds s w to every logit l, where w is the unit's weight times the distance between its two
values, and s is 1 if the unit was at rest and -1 if it was active. With p = sigmoid(l), q = 1 - p,
t = tanh(l/2) and T = tanh(w/2),

    softplus(l + s w) - softplus(l) = s w/2 + log cosh(w/2) + log(1 + s t T)      "tanh" form
                                    = log(q + p e^w), or for s = -1,
                                      log(p + q e^w) - w                           "share" form

The tanh form is the fastest, but its last factor loses e^|w| / 2 units of rounding: it ends at
|w| = 4. The share form adds positive numbers only, and ends where the product of a few factors
leaves the floating-point range. Beyond that, the plain form stays in log space.
"""

import math
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from . import native
from .blocks import EXACT, blocks, largest_weight, log_product, sum_blocks, varying_like, with_nans
from .softplus import softplus

ROWS = 50  # outputs per iteration, unrolled: below 16, XLA does not vectorise the loop body
PLAIN_ROWS = 8  # the same where each is dear
TANH_LIMIT = 4.0  # on |w|: 27 units of rounding
TANH_GROUP = 16  # factors of at least 1 - tanh(2) = 0.036 whose product is a normal float32
SHARE_GROUP = 4  # factors within exp(+-|w|) whose product must be one

Flip = list[Float[Array, "B I"]]  # change of sum softplus(l) - s w/2; change of entropy if wanted


def bernoulli_flip(
    logits: Float[Array, "B O"],
    fired: Float[Array, "B O"],
    weight: Float[Array, "O I"],
    sign: Float[Array, "B I"],
    with_entropy: bool,
) -> Flip:
    """Change of sum_o log P(fired_o), and of the outputs' entropy if wanted, when unit i adds
    sign_i weight_oi to logit o."""
    arrays = logits, with_nans(fired, logits), weight, sign
    pure = partial(_pure_flip, with_entropy)
    if not native.kernel().is_native or weight.dtype != jnp.float32:
        return pure(*arrays)
    fast = partial(_native_flip, with_entropy)
    return jax.lax.platform_dependent(*arrays, cpu=fast, default=pure)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _native_flip(with_entropy: bool, logits, fired, weight, sign) -> Flip:
    tables = native.bernoulli_flip(logits, fired, weight, sign, with_entropy)
    return [varying_like(table, logits, fired, weight, sign) for table in tables]


@_native_flip.defjvp
def _native_flip_jvp(with_entropy: bool, primals, tangents):
    return jax.jvp(partial(_pure_flip, with_entropy), primals, tangents)


def _pure_flip(with_entropy: bool, logits, fired, weight, sign) -> Flip:
    change, *entropies = _softplus_flip(with_entropy, logits, weight, sign)
    # The barrier keeps an accelerator from doing the product again in each fusion that reads it.
    linear = jnp.matmul(fired - 0.5, weight, precision=EXACT)
    linear = jax.lax.optimization_barrier(linear)
    return [sign * linear - change, *entropies]


def _softplus_flip(with_entropy: bool, logits, weight, sign) -> Flip:
    """By the first of the forms that is right for these weights, on this platform."""
    forms = [partial(form, with_entropy) for form in (_tanh_form, _share_form, _plain_form)]

    def fast(logits, weight, sign):
        size, limits = largest_weight(weight), (TANH_LIMIT, share_limit(weight.dtype))
        index = sum((~(size <= limit)).astype(int) for limit in limits)  # NaN: the last form
        return jax.lax.switch(index, forms, logits, weight, sign)

    return jax.lax.platform_dependent(logits, weight, sign, cpu=fast, default=forms[-1])


def share_limit(dtype) -> float:
    """Largest |w| at which any `SHARE_GROUP` factors make a normal number."""
    return math.log(float(jnp.finfo(dtype).max)) / SHARE_GROUP - 2


def _tanh_form(with_entropy: bool, logits, weight, sign) -> Flip:
    logits, weight = blocks(ROWS, logits.T, weight)
    t, half = jnp.tanh(logits / 2), jnp.tanh(weight / 2)
    slope = logits * (4 * jax.nn.sigmoid(logits) * jax.nn.sigmoid(-logits))  # l (1 - t^2)

    def body(t, half, *rest):
        signed = [sign * row[None, :] for row in half]
        factors = [1 + a[:, None] * b for a, b in zip(t, signed, strict=True)]
        log = log_product(factors, TANH_GROUP)
        if not with_entropy:
            return [log]
        moved = [  # z tanh(z/2) - l tanh(l/2), at z = l + s w
            (b * g[:, None] + (sign * w[None, :]) * (a[:, None] + b)) / f
            for a, b, g, w, f in zip(t, signed, *rest, factors, strict=True)
        ]
        return [log, sum(moved)]

    arrays = [t, half, slope, weight] if with_entropy else [t, half]
    log, *moved = sum_blocks(body, [sign] * (1 + with_entropy), arrays)
    inverse_squares = [1 - row**2 for row in jnp.swapaxes(half, 0, 1)]  # 1 / cosh^2 >= 0.07
    log_cosh = -jnp.sum(log_product(inverse_squares, TANH_GROUP), axis=0) / 2
    change = log + log_cosh[None, :]
    return [change, *(change - total / 2 for total in moved)]


def _share_form(with_entropy: bool, logits, weight, sign) -> Flip:
    """A step down is a step up of the mirrored output, as softplus(z) = softplus(-z) + z."""
    logits, weight = blocks(ROWS, logits.T, weight)
    p, q, grown = jax.nn.sigmoid(logits), jax.nn.sigmoid(-logits), jnp.exp(weight)
    up = sign > 0

    def body(p, q, grown, *rest):
        chance = [jnp.where(up, a[:, None], b[:, None]) for a, b in zip(p, q, strict=True)]
        factors = [
            jnp.where(up, b[:, None], a[:, None]) + c * e[None, :]
            for a, b, c, e in zip(p, q, chance, grown, strict=True)
        ]
        log = log_product(factors, SHARE_GROUP)
        if not with_entropy:
            return [log]
        moved = [  # z sigmoid(z) - l sigmoid(l), at z = l + w, of the mirrored l
            (c * v[None, :] + (sign * g[:, None]) * (e - 1)[None, :]) / f
            for c, e, g, v, f in zip(chance, grown, *rest, factors, strict=True)
        ]
        return [log, sum(moved)]

    arrays = [p, q, grown, *([logits * p * q, weight * grown] if with_entropy else [])]
    log, *moved = sum_blocks(body, [sign] * (1 + with_entropy), arrays)
    change = log - jnp.sum(weight, axis=(0, 1))[None, :] / 2
    return [change, *(log - total for total in moved)]


def _plain_form(with_entropy: bool, logits, weight, sign) -> Flip:
    arrays = blocks(PLAIN_ROWS, logits.T, weight)

    def body(logits, weight):
        pairs = [(a[:, None], sign * w[None, :]) for a, w in zip(logits, weight, strict=True)]
        change = sum(softplus_change(old, move) - move / 2 for old, move in pairs)
        if not with_entropy:
            return [change]
        return [change, sum(entropy(old + move) - entropy(old) for old, move in pairs)]

    return sum_blocks(body, [sign] * (1 + with_entropy), arrays)


def softplus_change(logits: Array, move: Array) -> Array:
    """softplus(l + w) - softplus(l) = log(q + p e^w), in log space: right at any size."""
    log_q, log_p_moved = jax.nn.log_sigmoid(-logits), jax.nn.log_sigmoid(logits) + move
    return jnp.logaddexp(log_q, log_p_moved)


def entropy(logits: Array) -> Array:
    """Entropy of a Bernoulli unit, from the side on which it does not cancel."""
    size = jnp.abs(logits)
    return softplus(-size) + size * jax.nn.sigmoid(-size)
