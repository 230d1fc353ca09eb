"""A Bernoulli child, when a categorical unit of its parent switches to another category.

Going from a category of weight v to one of weight w adds w - v to every logit l:

    softplus(l + w - v) - softplus(l) = log(q e^v + p e^w) - v       "share" form

with p = sigmoid(l), q = 1 - p. Only differences between the categories of a unit count, so its
weights are centred first. Where even those are too large, the plain form stays in log space.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from .bernoulli import PLAIN_ROWS, SHARE_GROUP, entropy, share_limit, softplus_change
from .blocks import EXACT, blocks, largest_weight, log_product, sum_blocks, with_nans

ROWS = 16  # outputs per iteration

Switch = list[Float[Array, "K B U"]]  # change of the log-probability; of the entropy if wanted


def bernoulli_switch(
    logits: Float[Array, "B O"],
    fired: Float[Array, "B O"],
    weight: Float[Array, "O K U"],
    category: Int[Array, "B U"],
    with_entropy: bool,
) -> Switch:
    """Change of sum_o log P(fired_o), and of the outputs' entropy if wanted, when unit u goes
    from its category to k."""
    highest, lowest = jnp.max(weight, axis=1), jnp.min(weight, axis=1)
    centred = weight - (highest + lowest)[:, None, :] / 2
    forms = [partial(form, with_entropy) for form in (_share_form, _plain_form)]

    def fast(logits, weight, category):
        safe = largest_weight(weight) <= share_limit(weight.dtype)
        return jax.lax.cond(safe, *forms, logits, weight, category)

    softplus, *entropies = jax.lax.platform_dependent(
        logits, centred, category, cpu=fast, default=forms[-1]
    )
    fired = with_nans(fired, logits)
    linear = jnp.einsum("bo,oku->kbu", fired, centred, precision=EXACT)
    stays = category[None] == jnp.arange(weight.shape[1])[:, None, None]
    changes = [linear - _at(linear, category)[None] - softplus, *entropies]
    return [jnp.where(stays, 0, change) for change in changes]


def _share_form(with_entropy: bool, logits, weight, category) -> Switch:
    logits, weight = blocks(ROWS, logits.T, weight)
    p, q, grown = jax.nn.sigmoid(logits), jax.nn.sigmoid(-logits), jnp.exp(weight)

    def body(logits, weight, p, q, grown):
        now, was = _of(grown, category), _of(weight, category)  # [rows, B, U]
        new = [a[None, :, None] * e[:, None, :] for a, e in zip(p, grown, strict=True)]
        factors = [(b[:, None] * n)[None] + e for b, n, e in zip(q, now, new, strict=True)]
        change = log_product(factors, SHARE_GROUP) - jnp.sum(was, axis=0)[None]
        if not with_entropy:
            return [change]
        moved = [  # z sigmoid(z) - l sigmoid(l), at z = l + w - v
            (e * (w[:, None, :] - v[None]) + (l * b)[None, :, None] * (e - (a[:, None] * n)[None]))
            / f
            for l, w, v, a, b, n, e, f in zip(  # noqa: E741
                logits, weight, was, p, q, now, new, factors, strict=True
            )
        ]
        return [change, change - sum(moved)]

    return sum_blocks(body, _shape(weight, category, with_entropy), [logits, weight, p, q, grown])


def _plain_form(with_entropy: bool, logits, weight, category) -> Switch:
    logits, weight = blocks(PLAIN_ROWS, logits.T, weight)

    def body(logits, weight):
        was = _of(weight, category)
        pairs = [
            (old[None, :, None], w[:, None, :] - v[None])
            for old, w, v in zip(logits, weight, was, strict=True)
        ]
        change = sum(softplus_change(old, move) for old, move in pairs)
        if not with_entropy:
            return [change]
        return [change, sum(entropy(old + move) - entropy(old) for old, move in pairs)]

    return sum_blocks(body, _shape(weight, category, with_entropy), [logits, weight])


def _shape(weight: Float[Array, "blocks rows K U"], category, with_entropy: bool) -> Switch:
    return [jnp.zeros((weight.shape[2], *category.shape), weight.dtype)] * (1 + with_entropy)


def _of(weight: Float[Array, "rows K U"], category: Int[Array, "B U"]) -> Float[Array, "rows B U"]:
    """The weights of the units' own categories."""
    units = jnp.arange(weight.shape[2])[None, :]
    return weight.at[:, category, units].get(mode="promise_in_bounds")


def _at(table: Float[Array, "K B U"], category: Int[Array, "B U"]) -> Float[Array, "B U"]:
    return jnp.take_along_axis(table, category[None], axis=0)[0]
