"""The memory of a step grows like batch x (inputs + outputs), never batch x inputs x outputs."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
import pytest

import hnca
from hnca.lab.training import TrainState, make_epoch
from hnca.models import conv_vae

BATCH, PIXELS, UNITS = 500, 784, 1000
KEYS = jax.random.split(jax.random.key(0), 5)


def vae() -> hnca.Graph:
    return hnca.Graph(
        nodes=[
            hnca.Node("h1", hnca.Bernoulli(PIXELS, UNITS, key=KEYS[0]), ["x"]),
            hnca.Node("h2", hnca.Bernoulli(UNITS, UNITS, key=KEYS[1]), ["h1"]),
        ],
        objective=[
            hnca.LogProb("x", hnca.Bernoulli(UNITS, PIXELS, key=KEYS[2]), ["h1"]),
            hnca.LogProb("h1", hnca.Bernoulli(UNITS, UNITS, key=KEYS[3]), ["h2"]),
            hnca.LogProb("h2", hnca.Bernoulli(0, UNITS, key=KEYS[4])),
            hnca.Entropy("h1"),
            hnca.Entropy("h2"),
        ],
    )


def bandit() -> hnca.Graph:
    return hnca.Graph(
        nodes=[
            hnca.Node("h1", hnca.Bernoulli(PIXELS, UNITS, values=(-1, 1), key=KEYS[0]), ["x"]),
            hnca.Node("h2", hnca.Categorical(UNITS, 10, units=UNITS // 10, key=KEYS[1]), ["h1"]),
            hnca.Node("h3", hnca.Bernoulli(UNITS, UNITS, key=KEYS[2]), ["h2"]),
            hnca.Node("action", hnca.Categorical(UNITS, 10, key=KEYS[3]), ["h3"]),
        ],
        objective=[hnca.Reward("reward", ["action"])],
    )


def temporary_bytes(graph: hnca.Graph, batch: int, pixels: int, world=None) -> int:
    """Of a compiled training step."""
    with jax.enable_x64(False):
        graph = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), graph)
        estimator, optimizer = hnca.HNCA(hnca.MovingAverage()), hnca.maximize(optax.adam(1e-4))
        epoch = make_epoch(estimator, optimizer, lambda x: ({"x": x}, world))
        state = TrainState.start(graph, estimator, optimizer, jax.random.key(1))
        arrays, static = eqx.partition(state, eqx.is_array)
        step = lambda arrays, x: eqx.filter(epoch(eqx.combine(arrays, static), x), eqx.is_array)
        inputs = jax.ShapeDtypeStruct((1, batch, pixels), jnp.float32)
        compiled = jax.jit(step, donate_argnums=0).lower(arrays, inputs).compile()
    return compiled.memory_analysis().temp_size_in_bytes


@pytest.mark.parametrize(("make", "layers"), [(vae, 5), (bandit, 4)])
def test_temporary_memory_of_a_training_step(make, layers):
    graph = make()
    world = (lambda sample: sample["action"] == 0) if make is bandit else None
    temporary = temporary_bytes(graph, BATCH, PIXELS, world)
    activations = 4 * BATCH * UNITS * layers
    weights = 4 * sum(leaf.size for leaf in jax.tree.leaves(graph))  # and as much again for Adam
    assert temporary < 6 * (activations + weights)
    assert temporary < (4 * BATCH * UNITS * UNITS) / 10  # a tenth of one array [B, O, I]


@pytest.mark.slow
def test_memory_of_convolutions_grows_like_their_units():
    batch, taken = 10, []
    for side in (16, 32):
        graph = conv_vae((side, side), (8, 16), key=KEYS[0])
        taken.append(temporary_bytes(graph, batch, side * side))
    assert taken[1] < 4.4 * taken[0]  # 4 times the units; 16 times the pairs of units
    pairs = graph["h1"].layer.units * graph["h2"].layer.units
    assert taken[1] < (4 * batch * pairs) / 8  # an eighth of one array [B, O, I]
