"""Every public name has an example in its docstring, and every example runs."""

import doctest
import inspect

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
import pytest

import hnca
from hnca.models import hierarchical_vae

NAMES = sorted(
    name
    for name, value in vars(hnca).items()
    if getattr(value, "__module__", "").startswith("hnca.") and value.__doc__
)


@pytest.fixture(scope="module")
def given():
    """What the reference page says that the examples begin with."""
    key = jax.random.key(0)
    graph, x = hierarchical_vae(6, [3], key=key), jnp.ones((5, 6))
    names = {"eqx": eqx, "jax": jax, "jnp": jnp, "optax": optax, "hnca": hnca}
    return names | {"key": key, "graph": graph, "x": x, "sample": graph.sample(key, x=x)}


def test_all_names_are_here():
    assert {"Graph", "HNCA", "gradient_variance", "maximize", "Bernoulli"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_example(name, given):
    text = inspect.getdoc(getattr(hnca, name)) or ""
    test = doctest.DocTestParser().get_doctest(text, dict(given), name, None, None)
    if not inspect.isabstract(getattr(hnca, name)):
        assert test.examples, f"hnca.{name} has no example"
    printed: list[str] = []
    doctest.DocTestRunner(verbose=False).run(test, out=printed.append)
    assert not printed, "".join(printed)
