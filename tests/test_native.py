"""The native kernel beside the pure form, where both are here: the other tests see the first."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hnca
from hnca.counterfactual import Counterfactuals
from hnca.kernels import bernoulli, bernoulli_flip, native
from jaxprs import equations
from test_kernels import bernoulli_layer, signs, weights

HERE = Path(__file__).parent
needs_native = pytest.mark.skipif(not native.kernel().is_native, reason=native.kernel().why)
needs_compiler = pytest.mark.skipif(not shutil.which("g++"), reason="no g++")


def arguments(batch, outputs, units, scale, seed=0):
    random = np.random.default_rng(seed)
    layer = bernoulli_layer(random, batch, outputs, np.float32, 3.0)
    weight = weights(random, (outputs, units), scale, np.float32)
    return [*map(jnp.asarray, (*layer, weight, signs(random, (batch, units), np.float32)))]


def calls(function, *arrays) -> int:
    """Of the native kernel."""
    return sum(e.primitive.name == "ffi_call" for e in equations(function, *arrays))


def both_forms(arrays, with_entropy):
    native_form = jax.jit(lambda *arrays: bernoulli._native_flip(with_entropy, *arrays))
    pure = jax.jit(lambda *arrays: bernoulli._pure_flip(with_entropy, *arrays))
    return zip(native_form(*arrays), pure(*arrays), strict=True)


@needs_compiler
def test_it_is_in_use_where_there_is_a_compiler():
    """If it did not compile, its other tests would be passed over."""
    assert native.kernel().is_native or os.environ.get("HNCA_NATIVE") == "0", native.kernel().why


@needs_native
@pytest.mark.parametrize("with_entropy", [False, True])
def test_functions_of_logits_are_taken_by_vectors(with_entropy):
    """Axes are exchanged twice, of the logits and of what fired: not in the functions' loops."""
    arrays = arguments(130, 40, 30, 1.0)
    flip = jax.jit(lambda *arrays: bernoulli._native_flip(with_entropy, *arrays))
    compiled = flip.lower(*arrays).compile().as_text()
    assert len(re.findall(r"= f32\S* transpose\(", compiled)) == 2


@needs_native
@pytest.mark.parametrize("scale", [1e-3, 4.0, 30.0, 70.0, 300.0])
@pytest.mark.parametrize("with_entropy", [False, True])
@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 103, 9), (67, 16, 33)])
def test_it_equals_the_pure_form_to_rounding(shape, with_entropy, scale):
    """One of everything, several blocks of rows, several of examples; no multiples of a vector."""
    arrays = arguments(*shape, scale)
    terms = shape[1] + 2 * np.abs(arrays[2]).sum(0)[None]
    for got, want in both_forms(arrays, with_entropy):
        assert np.all(np.abs(got - want) <= 4 * np.finfo(np.float32).eps * terms)


@pytest.mark.parametrize("values", [(-1, 1), (0.1, 0.7), (1000, 1000.1)])
def test_codings_that_round_do_not_add_up(values):
    """The sign of a flip is exact, though the values are not: small weights mean small changes."""
    k1, k2 = jax.random.split(jax.random.key(0))
    parent = hnca.Bernoulli(1, 9, values=values, key=k1)
    child = hnca.Bernoulli(9, 784, key=k2)
    small = child.logits.weight.astype(jnp.float32) * 1e-4
    child = eqx.tree_at(lambda layer: layer.logits.weight, child, small)
    graph = hnca.Graph(
        [hnca.Node("h", parent, ["x"]), hnca.Node("k", child, ["h"])], [hnca.Reward("r", ["k"])]
    )
    graph = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), graph)
    sample = graph.sample(k1, x=jnp.ones((3, 1), jnp.float32))
    moved = np.abs(small).sum(0).max() * (values[1] - values[0])  # the most that can change
    assert np.abs(Counterfactuals(graph, sample).message("k", "h")).max() <= moved


@needs_native
def test_it_is_used_for_float32_only():
    kernel = lambda *arrays: bernoulli_flip(*arrays, True)
    single = arguments(2, 5, 3, 1.0)
    assert calls(kernel, *single) == 1
    assert calls(kernel, *(array.astype(jnp.float64) for array in single)) == 0
    assert native.kernel_of(jnp.float32, "gpu") == native.PURE


@needs_native
def test_examples_side_by_side_are_one_call():
    """Not one for each, which would take the weights' tanh each time."""
    logits, fired, weight, sign = arguments(6, 20, 4, 1.0)
    one = lambda logits, fired, sign: [
        table[0] for table in bernoulli_flip(logits[None], fired[None], weight, sign[None], True)
    ]
    mapped = jax.vmap(one)
    whole = bernoulli_flip(logits, fired, weight, sign, True)
    for got, want in zip(mapped(logits, fired, sign), whole, strict=True):
        np.testing.assert_array_equal(got, want)
    shapes = [
        e.outvars[0].aval.shape
        for e in equations(mapped, logits, fired, sign)
        if e.primitive.name == "ffi_call"
    ]
    assert shapes == [(6, 4)]


@needs_native
@pytest.mark.parametrize("kind", ["Auto", "Explicit"])
def test_within_a_shard_map(kind):
    """What a device has is part of a whole, and the type of the tables says so."""
    mesh = jax.make_mesh((1,), ("d",), axis_types=(getattr(jax.sharding.AxisType, kind),))
    whole, parted = jax.P(), jax.P("d")
    arrays = arguments(4, 5, 3, 1.0)
    tables = lambda *arrays: bernoulli_flip(*arrays, with_entropy=True)
    specs = {"in_specs": (parted, parted, whole, parted), "out_specs": parted}
    placed = [
        jax.device_put(array, jax.NamedSharding(mesh, spec))
        for array, spec in zip(arrays, specs["in_specs"], strict=True)
    ]
    found = jax.jit(jax.shard_map(tables, mesh=mesh, **specs))(*placed)
    for table, wanted in zip(found, tables(*arrays), strict=True):
        np.testing.assert_allclose(table, wanted, rtol=1e-6)


@pytest.mark.slow
@needs_native
def test_its_derivative_is_that_of_the_pure_form():
    logits, fired, weight, sign = arguments(3, 7, 4, 1.0)
    total = lambda flip: lambda w: sum(jnp.sum(table) for table in flip(w))
    by_native = jax.grad(total(lambda w: bernoulli_flip(logits, fired, w, sign, True)))(weight)
    by_pure = jax.grad(total(lambda w: bernoulli._pure_flip(True, logits, fired, w, sign)))(weight)
    np.testing.assert_allclose(by_native, by_pure, rtol=1e-5, atol=1e-6)


@needs_native
def test_programs_side_by_side_and_donated_buffers():
    """Threads that all want XLA's threads; none waits for another."""
    arrays = arguments(67, 103, 33, 1.0)
    kernel = jax.jit(lambda *arrays: bernoulli_flip(*arrays, True), donate_argnums=3)
    run = lambda _: [np.asarray(table) for table in kernel(*arrays[:3], jnp.copy(arrays[3]))]
    first = run(None)
    with ThreadPoolExecutor(4) as pool:
        for tables in pool.map(run, range(40)):
            np.testing.assert_array_equal(tables, first)  # the same bits each time


def test_it_can_be_switched_off():
    code = "from hnca.kernels import native; print(native.kernel())"
    environment = os.environ | {"HNCA_NATIVE": "0"}
    told = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    ).stdout
    assert native.PURE in told
    assert "HNCA_NATIVE=0" in told


@needs_native
def test_one_that_is_older_than_its_source_is_not_used(tmp_path, monkeypatch):
    """After a `git pull` without an install, the two would disagree about their arguments."""
    newer = tmp_path / "bernoulli.cc"
    newer.write_text(native.SOURCE.read_text() + "// changed\n")
    monkeypatch.setattr(native, "SOURCE", newer)
    found = native.kernel.__wrapped__()
    assert not found.is_native
    assert "install hnca again" in found.why


@pytest.mark.slow
@pytest.mark.parametrize("file", ["kernels", "extremes", "memory", "textbook", "transformations"])
def test_the_pure_form_passes_the_same_tests(file):
    command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider"]
    result = subprocess.run(
        [*command, HERE / f"test_{file}.py"],
        env=os.environ | {"HNCA_NATIVE": "0"},
        cwd=HERE.parent,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("sanitizers", ["address,undefined", "thread"])
def test_sanitizers_find_nothing(sanitizers, tmp_path):
    driver = tmp_path / "driver"
    flags = f"-std=c++17 -O1 -g -pthread -fsanitize={sanitizers} -fno-sanitize-recover=all"
    source = str(HERE / "native_driver.cc")
    subprocess.run(["g++", *flags.split(), source, "-o", driver], check=True)
    result = subprocess.run([driver], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "plain vectors: ok" in result.stdout


@pytest.mark.slow
@pytest.mark.skipif(not importlib.util.find_spec("hatchling"), reason="hatchling is not installed")
@pytest.mark.parametrize("compiler", ["there", "missing", "broken"])
def test_a_wheel_is_built_with_and_without_a_compiler(compiler, tmp_path):
    names = ["src", "pyproject.toml", "hatch_build.py", "README.md", "LICENSE", ".gitignore"]
    for name in names:
        from_, to = HERE.parent / name, tmp_path / "tree" / name
        to.parent.mkdir(exist_ok=True)
        shutil.copytree(from_, to) if from_.is_dir() else shutil.copy(from_, to)
    cxx = {"there": {}, "missing": {"CXX": "no-such-compiler"}, "broken": {"CXX": "false"}}[
        compiler
    ]
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "out"],
        cwd=tmp_path / "tree",
        env=os.environ | cxx,
        check=True,
    )
    [wheel] = (tmp_path / "out").iterdir()
    expected = compiler == "there" and bool(shutil.which("c++"))
    assert ("none-any" not in wheel.name) == expected
    listed = subprocess.run(
        [sys.executable, "-m", "zipfile", "-l", wheel], capture_output=True, text=True, check=True
    ).stdout
    assert ("libhnca.kernel" in listed) == expected
