"""The paper's VAEs with the clip of its author's published code (HNCA_code_supplement on GitHub,
generative_modeling/HNCA.py): the probability that a unit fires stays between 1e-5 and 1 - 1e-5
wherever a unit is drawn or scored, and in the derivative. Tables of what a unit's children would
have done go by the logits as they are, as there.

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

from hnca import HNCA, Bernoulli
from hnca.lab.errors import UsageError
from hnca.lab.experiments import VAE

LEAST = 1e-5
LIMIT = math.log((1 - LEAST) / LEAST)  # of logits
# Of weights. Those of pixels that are never on grow for ever with the clip, by the learning rate a
# step, and tables take several times as long beyond 70. Nothing else comes of it: such a pixel has
# been as black as can be for long.
LARGEST = 69.0
# All methods that take logits.
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
    """For the rest of the process, as the fast tables are for the library's own class, and not for
    a subclass: run nothing else in it."""
    for name in METHODS:
        setattr(Bernoulli, name, clipping(getattr(Bernoulli, name)))


@optax.stateless
def stop(updates, params):
    """Lets no weight beyond the largest; the other updates keep their bits."""

    def stopped(update, param):
        moved = param + update
        return jnp.where(jnp.abs(moved) > LARGEST, jnp.sign(moved) * LARGEST - param, update)

    return jax.tree.map(stopped, updates, params)


@dataclass(frozen=True)
class ClippedVAE(VAE):
    """A VAE whose units fire with probabilities between 1e-5 and 1 - 1e-5."""

    def check(self):
        super().check()
        if not isinstance(self.make_estimator(), HNCA):
            raise UsageError(f"the clip is for hnca: {self.estimator} has logits of its own")

    def graph(self, data, key):
        clip_bernoulli_units()
        return super().graph(data, key)

    def make_optimizer(self, steps):
        return optax.chain(super().make_optimizer(steps), stop)
