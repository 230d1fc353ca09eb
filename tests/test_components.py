"""A component of one's own, and what every class of the core keeps to."""

import importlib
import pkgutil
from collections.abc import Iterator

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hnca
from enumeration import assert_trees_close
from graphs import Case, bits, keys, lively
from test_unbiased import check_unbiased

KEY = jax.random.key(0)


class Agreement(hnca.AbstractComponent):
    """How often a binary code says what a category says: a component in one method."""

    name: str = eqx.field(static=True)
    parents: tuple[str, ...] = eqx.field(static=True)

    def value(self, graph, sample):
        code, category, x = (sample[parent] for parent in self.parents)
        return (code[:, 0] == category) * jnp.sin(1 + category + code.sum(1)) + x[:, 0] * code[:, 1]


class Scaled(hnca.AbstractComponent):
    """One with a parameter."""

    scale: jax.Array
    name: str = eqx.field(static=True)
    parents: tuple[str, ...] = eqx.field(static=True)

    def value(self, graph, sample):
        return jnp.exp(self.scale) * graph.features(sample, self.parents).sum(1) ** 2


def case(*components: hnca.AbstractComponent) -> Case:
    k = keys()
    nodes = [
        hnca.Node("h", hnca.Bernoulli(2, 2, key=next(k)), ["x"]),
        hnca.Node("c", hnca.Categorical(2, 3, key=next(k)), ["h"]),
    ]
    return Case(lively(hnca.Graph(nodes, components)), {"x": bits(2, 2)})


def test_own_components_are_unbiased():
    own = case(Agreement("agreement", ("h", "c", "x")), Scaled(jnp.array(0.3), "scaled", ("c",)))
    check_unbiased(own, {"reinforce": hnca.Reinforce(), "hnca": hnca.HNCA(hnca.MovingAverage())})
    assert [part.has_parameters for part in own.graph.objective] == [False, True]
    assert hnca.parameter_counts(own.graph)["scaled"] == 1


def test_own_counterfactuals_are_those_of_a_function():
    """The default `change` of a component, against the one that `Function` has."""
    read = lambda h, c, x: jnp.cos(h @ jnp.array([1.0, 2.0]) + c[..., 0, :] @ jnp.arange(3.0))

    class Own(Agreement):
        def value(self, graph, sample):
            return read(*(graph.expand(sample, parent) for parent in self.parents))

    parents = ("h", "c", "x")
    credits = []
    for component in (Own("f", parents), hnca.Function("f", read, parents)):
        graph, context = case(component)
        sample, estimator = graph.sample(KEY, **context), hnca.HNCA()
        credits.append(estimator(graph, sample, estimator.init(graph))[0].credit)
    assert_trees_close(*credits)
    assert np.any(credits[0]["c"] != 0)


class Nosy(Agreement):
    """Reads what it has not asked for."""

    def value(self, graph, sample):
        return sample.logits["c"].sum((1, 2)) + sample["h"][:, 0]


def test_what_is_read_besides_is_not_taken_for_constant():
    graph, context = case(Nosy("nosy", ("h",)))
    sample, estimator = graph.sample(KEY, **context), hnca.HNCA()
    with pytest.raises(ValueError, match="Nosy 'nosy' reads 'c', no input of it: name it in"):
        estimator(graph, sample, estimator.init(graph))


class Homeless(hnca.AbstractComponent):
    """Says nowhere what it reads."""

    name: str = eqx.field(static=True)

    def value(self, graph, sample):
        return sample["h"].sum(1)


def test_a_component_says_what_it_reads():
    with pytest.raises(TypeError, match="Homeless 'homeless' needs `parents`, or a method"):
        case(Homeless("homeless"))
    with pytest.raises(TypeError, match=r"Agreement 'agreement': .* as in \['h'\], not a string"):
        case(Agreement("agreement", "h"))  # pyright: ignore[reportArgumentType]


def modules_of_the_core() -> Iterator[type]:
    for found in pkgutil.walk_packages(hnca.__path__, "hnca."):
        if ".lab" in found.name or found.name.endswith("__main__"):
            continue
        for each in vars(importlib.import_module(found.name)).values():
            own = isinstance(each, type) and each.__module__ == found.name
            if own and issubclass(each, eqx.Module):
                yield each


def test_classes_are_abstract_or_final():
    """No class of the core inherits from one that can be made."""
    classes = list(modules_of_the_core())
    assert hnca.HNCA in classes
    assert len(classes) > 20
    for each in classes:
        for base in each.__mro__[1:]:
            if base.__module__.startswith("hnca."):
                assert base.__name__.startswith("Abstract"), f"{each} inherits from {base}"
        if each.__name__.startswith("Abstract"):
            with pytest.raises(TypeError, match="abstract"):
                each()
