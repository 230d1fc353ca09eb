"""The state of a run on disk, in every precision."""

import json
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import hnca
from hnca.lab.errors import UserError
from hnca.lab.training import TrainState, checkpoint


def state_of(dtype, seed=0) -> TrainState:
    key, estimator = jax.random.key(seed), hnca.HNCA(hnca.MovingAverage())
    node = hnca.Node("action", hnca.Categorical(3, 4, key=key), ["x"])
    graph = hnca.Graph([node], [hnca.Reward("reward", ["action"])])
    graph = jax.tree.map(lambda leaf: leaf.astype(dtype), graph)
    return TrainState.start(graph, estimator, hnca.maximize(optax.adam(1e-2)), key)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16, jnp.float32, jnp.float8_e4m3fn])
def test_round_trip(tmp_path, dtype):
    state = state_of(dtype)
    checkpoint.save(tmp_path, state, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        restored, epoch = checkpoint.restore(tmp_path, state_of(dtype, seed=1))
    assert epoch == 3
    got, wanted = map(checkpoint.named_arrays, (restored, state))
    assert {leaf.dtype for leaf in jax.tree.leaves(state.graph)} == {jnp.dtype(dtype)}
    for name, leaf in wanted.items():
        assert got[name].dtype == leaf.dtype
        assert checkpoint.to_numpy(got[name]).tobytes() == checkpoint.to_numpy(leaf).tobytes()


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float32])
def test_numpy_opens_it(tmp_path, dtype):
    state = state_of(dtype)
    checkpoint.save(tmp_path, state, 1)
    wanted = {k: checkpoint.to_numpy(leaf) for k, leaf in checkpoint.named_arrays(state).items()}
    manifest = json.loads((tmp_path / "epoch-000001" / "manifest.json").read_text())
    with np.load(tmp_path / "epoch-000001" / "arrays.npz", allow_pickle=False) as arrays:
        assert set(arrays) == set(wanted)
        for name, array in arrays.items():
            assert array.dtype.kind != "V"
            assert array.tobytes() == wanted[name].tobytes()
            assert manifest["dtypes"].get(name, array.dtype.name) == wanted[name].dtype.name


def test_a_checkpoint_without_types_is_read(tmp_path):
    """As they were written before bfloat16 was."""
    state = state_of(jnp.float32)
    checkpoint.save(tmp_path, state, 1)
    path = tmp_path / "epoch-000001" / "manifest.json"
    path.write_text(json.dumps({"sha256": json.loads(path.read_text())["sha256"]}))
    restored, _ = checkpoint.restore(tmp_path, state_of(jnp.float32, seed=1))
    got, wanted = jax.tree.leaves(restored.graph), jax.tree.leaves(state.graph)
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


def test_another_precision_is_refused(tmp_path):
    checkpoint.save(tmp_path, state_of(jnp.bfloat16), 1)
    with pytest.raises(UserError, match="another network, method or precision"):
        checkpoint.restore(tmp_path, state_of(jnp.float16))
