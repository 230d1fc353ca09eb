"""VIMCO (Mnih and Rezende 2016): REINFORCE for the K-sample bound, each sample by its own part.

Derivation. The objective is E[L], with L = log 1/K sum_k w_k of K independent samples of the nodes
(multi_sample.py). Its derivative has two parts. The samples' probabilities move:
E[L sum_k score_k], with score_k = d log q(h_k) / d logits. And the weights do:
dL = sum_k w~_k d log w_k, where log w_k has -log q of a proposal. From L as the signal of sample k,
whatever depends on the other samples alone may be taken away: L with w_k replaced by the geometric
mean of the other weights, L_-k. So

    credit of a node in sample k  =  score_k x (L - L_-k - w~_k)     without w~_k if no proposal

Unbiased for the gradient of E[L], which is not that of the expected sum of components (K = 1).
"""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from .multi_sample import AbstractMultiSample, Logs


class Vimco(AbstractMultiSample):
    """VIMCO: the K-sample bound as objective, with the other samples as each one's baseline.

    >>> estimator = hnca.Vimco()
    >>> estimate, _ = estimator(graph, sample, estimator.init(graph, key=key), key=key)
    >>> estimate.credit["h1"].shape
    (5, 3)
    """

    samples: int = eqx.field(default=5, static=True)
    unbiased: ClassVar[bool] = True
    needs_objective: ClassVar[bool] = True

    def gains(self, log_weights: Logs, proposal: bool) -> Logs:
        count = log_weights.shape[1]
        whole = jnp.sum(log_weights, axis=1, keepdims=True)
        geometric = (whole - log_weights) / (count - 1)  # of the others
        own = jnp.eye(count, dtype=bool)[None]
        replaced = jnp.where(own, geometric[:, :, None], log_weights[:, None])  # [B, k, samples]
        bound = jax.nn.logsumexp(log_weights, axis=1, keepdims=True)  # both less log K
        gains = bound - jax.nn.logsumexp(replaced, axis=2)
        return gains - jax.nn.softmax(log_weights, axis=1) if proposal else gains
