"""Trunks from flax and haiku are trained, and what needs a key or a state is refused."""

from pathlib import Path

import equinox as eqx
import flax.linen
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import hnca
from enumeration import assert_trees_close
from hnca import Bernoulli, Function, Graph, Node
from test_docs import ROOT, code_blocks

KEY, X = jax.random.key(0), jnp.array([[0.3, -1.0, 2.0], [1.0, 0.5, 0.0]])


def names_in(page: Path) -> dict:
    names: dict = {}
    for block in code_blocks(page):
        exec(block, names)
    return names


@pytest.fixture(scope="module")
def page() -> dict:
    return names_in(ROOT / "docs/foreign_modules.md")


def test_the_page_runs(page):
    gradient = page["estimate"].grads["h"].layer.logits.hidden.kernel
    assert np.any(np.asarray(gradient) != 0)


@pytest.mark.parametrize("name", ["from_nnx", "from_linen", "from_haiku", "from_function"])
def test_the_gradient_is_that_of_the_exact_expectation(page, name):
    """Of E[2 a - 3 a b] = 2 p - 3 p q by the library's own derivative: every leaf is trained."""
    trunk = page[name]
    worth = Function("f", lambda h: 2 * h[..., 0] - 3 * h[..., 0] * h[..., 1], ["h"])
    graph = Graph([Node("h", Bernoulli(3, 2, logits=trunk), ["x"])], [worth])

    def expected(trunk):
        p, q = jax.nn.sigmoid(jax.vmap(trunk)(X)).T
        return jnp.mean(2 * p - 3 * p * q)

    wanted = jax.tree.leaves(eqx.filter_grad(expected)(trunk))
    assert len(wanted) == len(jax.tree.leaves(graph)) >= 2
    _, gradient = hnca.exact_gradient(graph, x=X)
    # nnx and haiku compute in float32, whatever jax is set to
    assert_trees_close(gradient, wanted, rtol=1e-5)
    assert hnca.parameter_counts(graph) == {"h": sum(leaf.size for leaf in wanted)}


class Dropped(nnx.Module):
    def __init__(self):
        self.map, self.drop = nnx.Linear(3, 2, rngs=nnx.Rngs(0)), nnx.Dropout(0.5, rngs=nnx.Rngs(1))

    def __call__(self, x):
        return self.drop(self.map(x))


class Normed(nnx.Module):
    """With running statistics, which must not be trained as parameters."""

    def __init__(self):
        self.map = nnx.Linear(3, 2, rngs=nnx.Rngs(0))
        self.norm = nnx.BatchNorm(2, use_running_average=True, rngs=nnx.Rngs(1))

    def __call__(self, x):
        return self.norm(self.map(x))


def linen(*layers) -> hnca.Applied:
    module = flax.linen.Sequential([flax.linen.Dense(2), *layers])
    return hnca.Applied(module.apply, module.init({"params": KEY, "dropout": KEY}, X[0]))


def haiku_dropout() -> hnca.Applied:
    made = hk.transform(lambda x: hk.dropout(hk.next_rng_key(), 0.5, hk.Linear(2)(x)))
    return hnca.Applied(lambda p, x: made.apply(p, None, x), made.init(KEY, X[0]))


def haiku_state() -> hnca.Applied:
    made = hk.without_apply_rng(hk.transform_with_state(lambda x: hk.Linear(2)(x)))
    parameters, state = made.init(KEY, X[0])
    return hnca.Applied(lambda p, x: made.apply(p, state, x), parameters)


REFUSED = {
    "nnx dropout": Dropped,
    "nnx batch norm": Normed,
    "linen dropout": lambda: linen(flax.linen.Dropout(0.5, deterministic=False)),
    "linen batch norm": lambda: linen(flax.linen.BatchNorm(use_running_average=True)),
    "haiku dropout": haiku_dropout,
    "haiku state": haiku_state,
    "equinox dropout": lambda: eqx.nn.Sequential(
        [eqx.nn.Linear(3, 2, key=KEY), eqx.nn.Dropout(0.5)]
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_no_key_and_no_state(name):
    message = r"a layer's map has no key \(dropout\) and no state \(running statistics\)"
    with pytest.raises(ValueError, match=message):
        Graph([Node("h", Bernoulli(3, 2, logits=REFUSED[name]()), ["x"])])


def test_other_errors_are_not_explained_away():
    with pytest.raises(ValueError, match=r"must map \[3\] to \[2\]") as refusal:
        Graph([Node("h", Bernoulli(3, 2, logits=eqx.nn.Linear(3, 5, key=KEY)), ["x"])])
    assert "dropout" not in str(refusal.value)
