"""HNCA with other tables: as the paper prints them, vectorised over `[batch, out, in]`; or none."""

from collections.abc import Callable
from typing import ClassVar
from unittest import mock

import equinox as eqx
import jax
import jax.numpy as jnp

import hnca


class HNCAWith(hnca.AbstractEstimator):
    """HNCA, the same but for the tables of its Bernoulli layers."""

    flip: Callable = eqx.field(static=True)
    method: hnca.HNCA
    unbiased: ClassVar[bool] = True
    needs_objective: ClassVar[bool] = False

    def __init__(self, flip: Callable):
        """With `flip` in place of `hnca.kernels.bernoulli_flip`."""
        self.flip = flip
        self.method = hnca.HNCA()

    def init(self, graph, *, key=None):
        """As HNCA."""
        return self.method.init(graph)

    def assign(self, graph, sample, values, state, key):
        """As HNCA, traced with another kernel."""
        with mock.patch("hnca.counterfactual.bernoulli_flip", self.flip):
            return self.method.assign(graph, sample, values, state, key)


def bernoulli_flip(logits, fired, weight, sign, with_entropy):
    """What `hnca.kernels.bernoulli_flip` computes, with a log-sigmoid for every edge."""
    moved = logits[:, :, None] + sign[:, None, :] * weight[None]  # [B, O, I]
    fired = fired[:, :, None]
    log_prob = lambda z: fired * jax.nn.log_sigmoid(z) + (1 - fired) * jax.nn.log_sigmoid(-z)
    entropy = lambda z: jax.nn.softplus(z) - z * jax.nn.sigmoid(z)
    statistics = [log_prob, entropy] if with_entropy else [log_prob]
    return [jnp.sum(f(moved) - f(logits[:, :, None]), axis=1) for f in statistics]


def no_flip(logits, fired, weight, sign, with_entropy):
    """Tables for nothing: zeros."""
    return [jnp.zeros_like(sign)] * (1 + with_entropy)
