"""The series of softplus beside its definition, in double precision."""

import jax
import jax.numpy as jnp
import numpy as np

from hnca.kernels.softplus import softplus


def test_to_two_units_of_rounding_at_any_size():
    x = np.concatenate([np.linspace(-87, 87, 400_001), [-1e-30, 0, 1e-30, 1e30]])
    x = x.astype(np.float32)
    exact = np.logaddexp(x.astype(float), 0)
    found = np.asarray(jax.jit(softplus)(x), float)
    assert np.max(np.abs(found - exact) / exact) < 2 * np.finfo(np.float32).eps


def test_at_the_ends():
    ends = softplus(jnp.array([-jnp.inf, jnp.inf, jnp.nan, -200.0], jnp.float32))
    np.testing.assert_array_equal(ends, [0, jnp.inf, jnp.nan, 0])


def test_its_derivatives_are_those_of_the_logistic_function():
    x = jnp.linspace(-30, 30, 601, dtype=jnp.float32)  # 0 is among them, where |x| has no slope
    each = jax.vmap(jax.grad(softplus))(x)
    np.testing.assert_array_equal(each, jax.nn.sigmoid(x))
    second = jax.vmap(jax.grad(jax.grad(softplus)))(x)
    np.testing.assert_allclose(second, jax.nn.sigmoid(x) * jax.nn.sigmoid(-x), rtol=0, atol=1e-7)


def test_other_types_are_left_to_jax():
    x = jnp.linspace(-3, 3, 7, dtype=jnp.bfloat16)
    np.testing.assert_array_equal(softplus(x), jax.nn.softplus(x))
