"""The paper's VAEs with the clip of its author's published code: the probability that a unit fires
stays between 1e-5 and 1 - 1e-5, wherever it is drawn from, scored or multiplied with. Tables of
what children would have done go by the logits as they are, as there.

With the clip, the weights of pixels that are never on grow for ever, by the learning rate a step.
They are stopped at 69, where such a pixel has long been as black as it can be: tables take several
times as long beyond 70.

    hnca sweep docs/results/clipped/clipped.toml
    python docs/results/page.py collect runs/clipped
    python docs/results/page.py write
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, wraps

import jax
import jax.numpy as jnp
import optax

from hnca import Bernoulli
from hnca.lab.experiments import VAE

LEAST = 1e-5
LIMIT = math.log((1 - LEAST) / LEAST)  # of logits
LARGEST = 69.0  # of weights
METHODS = ("sample", "mean", "log_odds", "log_prob", "entropy", "posterior", "expected_score")


def clipping(method: Callable) -> Callable:
    """The method with clipped logits. Derivatives pass through as if there were no clip."""

    @wraps(method)
    def clipped(self, logits, *rest):
        inside = jnp.clip(logits, -LIMIT, LIMIT)
        return method(self, logits + jax.lax.stop_gradient(inside - logits), *rest)

    return clipped


@cache  # once
def clip_bernoulli_units() -> None:
    """In the whole process: the fast tables are for the library's own class, not for a subclass."""
    for name in METHODS:
        setattr(Bernoulli, name, clipping(getattr(Bernoulli, name)))


def stopping(optimizer: optax.GradientTransformation) -> optax.GradientTransformation:
    """The optimizer, which leads no weight beyond the largest."""

    def stop(update, param):
        moved = param + update
        return jnp.where(jnp.abs(moved) > LARGEST, jnp.sign(moved) * LARGEST - param, update)

    def update(grads, state, params):
        updates, state = optimizer.update(grads, state, params)
        return jax.tree.map(stop, updates, params), state

    return optax.GradientTransformation(optimizer.init, update)


@dataclass(frozen=True)
class ClippedVAE(VAE):
    """A variational autoencoder whose units are never quite sure."""

    def graph(self, data, key):
        clip_bernoulli_units()
        return super().graph(data, key)

    def make_optimizer(self, steps):
        return stopping(super().make_optimizer(steps))
