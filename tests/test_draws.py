"""Numbers drawn in one loop are those that JAX draws, to the bit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hnca.draws import draw_uniform

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
