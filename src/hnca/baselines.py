"""What is subtracted from a learning signal to centre it."""

from abc import abstractmethod

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree


class AbstractBaseline(eqx.Module):
    """A scalar that does not depend on the sample it is subtracted from, so that no bias comes
    of it."""

    @abstractmethod
    def init(self) -> PyTree:
        """The state before the first batch."""

    @abstractmethod
    def value(self, state: PyTree) -> Float[Array, ""]:
        """What to subtract."""

    @abstractmethod
    def update(self, state: PyTree, signal: Float[Array, " B"]) -> PyTree:
        """The state for the next batch, after a batch with this learning signal."""


class NoBaseline(AbstractBaseline):
    """Subtracts nothing."""

    def init(self) -> PyTree:
        return ()

    def value(self, state: PyTree) -> Float[Array, ""]:
        return jnp.zeros(())

    def update(self, state: PyTree, signal: Float[Array, " B"]) -> PyTree:
        return ()


class MovingAverage(AbstractBaseline):
    """Exponential moving average of the signal's batch mean, from 0, updated after use. A mean
    that is not finite is passed over: one NaN would stay in the average for good.

    >>> baseline = hnca.MovingAverage(0.9)
    >>> state = baseline.update(baseline.init(), jnp.ones(5))
    >>> round(float(baseline.value(state)), 3)
    0.1
    """

    decay: int | float = eqx.field(default=0.99, static=True)

    def __check_init__(self):
        if not 0 <= self.decay < 1:
            raise ValueError(f"MovingAverage: decay must be in [0, 1), not {self.decay}")

    def init(self) -> PyTree:
        return jnp.zeros(())

    def value(self, state: PyTree) -> Float[Array, ""]:
        return state

    def update(self, state: PyTree, signal: Float[Array, " B"]) -> PyTree:
        mean = jnp.mean(signal)
        moved = self.decay * state + (1 - self.decay) * mean
        return jnp.where(jnp.isfinite(mean), moved, state)
