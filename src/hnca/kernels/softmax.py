"""A categorical child, when a binary unit of its parent flips.

A flip adds s w to the logits of a child unit, so that its normaliser grows by the factor
sum_l p_l exp(s w_l): two matrix products, one for each sign. Where weights are so large that a
probability which underflowed might have mattered, the plain form stays in log space.
"""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from .blocks import EXACT, largest_weight


def softmax_flip(
    logits: Float[Array, "B C L"],
    chosen: Int[Array, "B C"],
    weight: Float[Array, "C L I"],
    sign: Float[Array, "B I"],
) -> Float[Array, "B I"]:
    """Change of sum_c log softmax(logits_c)[chosen_c] when unit i adds sign_i weight_cli."""
    safe = largest_weight(weight) <= product_limit(weight.dtype)

    def add_unit(total, unit):
        log_p, weight, chosen = unit  # [B, L], [L, I], [B]
        normaliser = jax.lax.cond(safe, _product_form, _plain_form, log_p, weight, sign)
        moved = weight.at[chosen].get(mode="fill", fill_value=jnp.nan)  # no category: NaN
        return total + sign * moved - normaliser, None

    log_p = jnp.swapaxes(jax.nn.log_softmax(logits), 0, 1)
    return jax.lax.scan(add_unit, jnp.zeros_like(sign), (log_p, weight, chosen.T))[0]


def product_limit(dtype) -> float:
    """Largest |w| at which a lost probability cannot have mattered: tiny exp(2 |w|) << eps."""
    info = jnp.finfo(dtype)
    return (math.log(float(info.eps)) - math.log(float(info.tiny))) / 2 - 5


def _product_form(log_p, weight, sign) -> Float[Array, "B I"]:
    p = jnp.exp(log_p)
    up, down = (jnp.matmul(p, jnp.exp(w), precision=EXACT) for w in (weight, -weight))
    return jnp.log(jnp.where(sign > 0, up, down))


def _plain_form(log_p, weight, sign) -> Float[Array, "B I"]:
    def add_category(state, category):
        log_p, weight = category  # [B], [I]
        return jnp.logaddexp(state, log_p[:, None] + sign * weight[None, :]), None

    nothing = jnp.full_like(sign, -jnp.inf)
    return jax.lax.scan(add_category, nothing, (log_p.T, weight))[0]
