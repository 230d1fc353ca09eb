"""Numbers drawn in one loop are those that JAX draws, to the bit."""

from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

import hnca
from hnca.draws import draw_gumbel, draw_uniform

KEYS = {
    "typed": lambda: jax.random.key(3),
    "raw": lambda: jax.random.PRNGKey(4),
    "of another generator": lambda: jax.random.key(5, impl="rbg"),
}


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
@pytest.mark.parametrize("shape", [(), (7,), (50, 784), (3, 0), (2, 3, 5)])
@pytest.mark.parametrize("kind", KEYS)
def test_the_numbers_are_those_of_jax(kind, shape, dtype):
    key = KEYS[kind]()
    drawn = jax.jit(lambda key: draw_uniform(key, shape, dtype))(key)
    assert drawn.dtype == dtype
    np.testing.assert_array_equal(drawn, jax.random.uniform(key, shape, dtype))


@pytest.mark.parametrize("kind", KEYS)
def test_units_fire_as_jax_has_them_fire(kind):
    logits, key = jnp.linspace(-4, 4, 60, dtype=jnp.float32).reshape(5, 12), KEYS[kind]()
    layer = hnca.Bernoulli(0, 12, key=jax.random.key(0))
    fired = jax.random.bernoulli(key, jax.nn.sigmoid(logits))
    np.testing.assert_array_equal(layer.sample(logits, key), fired)


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("units", [1, 3])
def test_categories_are_drawn_as_jax_draws_them(kind, units):
    logits, key = jax.random.normal(jax.random.key(1), (50, units, 4), jnp.float32), KEYS[kind]()
    layer = hnca.Categorical(0, 4, units=units, key=jax.random.key(0))
    drawn = jax.random.categorical(key, logits)
    np.testing.assert_array_equal(layer.sample(logits, key), jnp.squeeze(drawn))


@pytest.mark.parametrize("fine", [False, True])
@pytest.mark.parametrize("kind", KEYS)
def test_gumbel_numbers_are_those_of_jax(kind, fine):
    """With the switch for finer ones as well."""
    key, shape = KEYS[kind](), (20, 3, 5)
    jax.config.update("jax_high_dynamic_range_gumbel", fine)
    try:
        drawn = jax.jit(lambda key: draw_gumbel(key, shape, jnp.float32))(key)
        np.testing.assert_array_equal(drawn, jax.random.gumbel(key, shape, jnp.float32))
    finally:
        jax.config.update("jax_high_dynamic_range_gumbel", False)


def test_a_gumbel_number_of_no_chance_at_all_is_finite():
    """The uniform number 0, which comes once in eight million draws."""
    with mock.patch("hnca.draws.draw_uniform", lambda key, shape, dtype: jnp.zeros(shape, dtype)):
        assert jnp.isfinite(draw_gumbel(jax.random.key(0), (2,), jnp.float32)).all()


@pytest.mark.parametrize("draw", [draw_uniform, draw_gumbel])
@pytest.mark.parametrize("shape", [(5, 2), (5, 4)])
def test_several_keys_are_refused(shape, draw):
    with pytest.raises(ValueError, match="single key"):
        draw(jax.random.split(jax.random.key(0), 3), shape, jnp.float32)


def test_a_batch_of_any_size_can_be_exported():
    (batch,) = export.symbolic_shape("batch")
    x = jax.ShapeDtypeStruct((batch, 3), jnp.float32)
    draw = jax.jit(lambda x: draw_uniform(jax.random.key(0), x.shape, x.dtype))
    there = export.export(draw)(x).call(jnp.zeros((5, 3), jnp.float32))
    numbers = jax.random.uniform(jax.random.key(0), (5, 3), jnp.float32)
    np.testing.assert_array_equal(there, numbers)


def test_they_are_those_of_jax_for_many_keys_at_once():
    keys = jax.random.split(jax.random.key(0), (4, 3))
    twice = lambda draw: jax.vmap(jax.vmap(lambda key: draw(key, (6, 5), jnp.float32)))(keys)
    np.testing.assert_array_equal(twice(draw_uniform), twice(jax.random.uniform))


def test_jax_may_be_told_to_count_otherwise():
    """With the switch that changes which numbers belong to a key, they change here, too."""
    key, shape = jax.random.key(1), (5, 3)
    usual = draw_uniform(key, shape, jnp.float32)
    with jax.threefry_partitionable(False):
        drawn = draw_uniform(key, shape, jnp.float32)
        np.testing.assert_array_equal(drawn, jax.random.uniform(key, shape, jnp.float32))
    assert not np.array_equal(drawn, usual)


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="for CPUs")
def test_the_rounds_are_written_out():
    """JAX's own program for a CPU has a loop, whose every pass goes through memory. Should that
    change, `draws.py` has no more use."""
    loops = []
    for draw in (draw_uniform, jax.random.uniform):
        program = jax.jit(lambda key, draw=draw: draw(key, (50, 20), jnp.float32))
        loops.append(program.lower(jax.random.key(0)).compile().as_text().count(" while("))
    assert loops == [0, 1]
