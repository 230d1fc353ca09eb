"""Convolutions against the matrix that each of them is, and their tables against brute force."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import hnca
from enumeration import of_single_samples
from graphs import Case, bits, lively
from hnca.counterfactual import Counterfactuals
from hnca.models import conv_vae
from test_unbiased import ESTIMATORS, check_unbiased

KEY = jax.random.key(0)
FEW, MANY = (
    settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],
        database=None,
    )
    for examples in (5, 25)
)


@st.composite
def convolutions(draw) -> hnca.Convolution:
    """With weights large enough to matter, on pictures of a few places."""
    channels, kernel = draw(st.sampled_from([(1, 2), (2, 1), (3, 2)])), draw(st.integers(1, 4))
    transposed, padding = draw(st.booleans()), draw(st.sampled_from(["same", 0, 1, 3]))
    padded = 0 if padding == "same" else padding
    least = 1 + 2 * padded if transposed else max(1, kernel - 2 * padded)
    size = st.integers(least, max(least, 4))
    map = hnca.Convolution(
        *channels,
        kernel,
        stride=draw(st.integers(1, min(kernel, 3))),
        padding=padding,
        transposed=transposed,
        image=(draw(size), draw(size)),
        key=KEY,
    )
    rng = np.random.default_rng(0)
    return jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape)), map)


def matrix(map: hnca.Convolution) -> np.ndarray:
    """What each input adds to each output, from the definition of where they meet."""
    found = np.zeros((*map.shape, *map.image))
    y, x = map.axes
    for offset in np.ndindex(y.kernel, x.kernel):
        for coarse in np.ndindex(y.coarse, x.coarse):
            dy, dx = offset
            fine = y.stride * coarse[0] + dy - y.before, x.stride * coarse[1] + dx - x.before
            if 0 <= fine[0] < y.fine and 0 <= fine[1] < x.fine:
                into, out_of = (fine, coarse) if map.transposed else (coarse, fine)
                found[(*into, slice(None), *out_of)] += np.asarray(map.weight[offset]).T
    return found.reshape(map.outputs, map.inputs)


def with_parent(map: hnca.Convolution, parent: hnca.AbstractLayer) -> hnca.Graph:
    child = hnca.Bernoulli(map.inputs, map.outputs, values=(-1, 1), logits=map)
    nodes = [hnca.Node("parent", parent, ["x"]), hnca.Node("child", child, ["parent"])]
    return hnca.Graph(nodes, [hnca.Entropy("child")])


@eqx.filter_jit
def tables(graph: hnca.Graph, sample: hnca.Sample, parent: str, brute_force: bool):
    found = Counterfactuals(graph, sample, brute_force)
    return found.message("child", parent), found.entropy("child", parent)


def check_tables(graph: hnca.Graph, expected: hnca.Graph, parent: str = "parent") -> None:
    """The graph's tables are those that the other one has by brute force."""
    x = jnp.ones((2, 1))
    sample = expected.sample(KEY, x=x)
    again = graph.observe(x=x, **{name: sample[name] for name in graph.node_names})
    np.testing.assert_allclose(again.logits["child"], sample.logits["child"], atol=1e-12)
    fast, slow = tables(graph, again, parent, False), tables(expected, sample, parent, True)
    for quick, brute in zip(fast, slow, strict=True):
        np.testing.assert_allclose(quick, brute, atol=1e-11)


def dense(graph: hnca.Graph) -> hnca.Graph:
    """The same with the matrix of the convolution."""
    map = graph["child"].layer.logits
    affine = hnca.Affine(map.inputs, map.outputs, key=KEY)
    values = jnp.asarray(matrix(map)), jnp.tile(map.bias, map.outputs // len(map.bias))
    affine = eqx.tree_at(lambda affine: (affine.weight, affine.bias), affine, values)
    return eqx.tree_at(lambda graph: graph["child"].layer.logits, graph, affine)


def check_pair(map: hnca.Convolution) -> None:
    categories = map.image[2]  # of one unit at each place
    parent = hnca.Bernoulli(1, map.inputs, values=(2, -1), key=KEY)
    if categories > 2:
        parent = hnca.Categorical(1, categories, units=map.inputs // categories, key=KEY)
    graph = with_parent(map, parent)
    assert graph["child"].layer.shape == map.shape
    check_tables(graph, dense(graph))


@FEW
@given(convolutions())
def test_tables_are_those_of_brute_force(map):
    check_pair(map)


@pytest.mark.slow
@MANY
@given(convolutions())
def test_tables_are_those_of_brute_force_on_many(map):
    check_pair(map)


def test_large_weights():
    """Where the tables are in log space, what is beyond the border still counts nothing."""
    map = hnca.Convolution(2, 2, 3, stride=2, padding="same", image=(3, 4), key=KEY)
    map = jax.tree.map(lambda leaf: 200 * leaf, map)
    graph = with_parent(map, hnca.Bernoulli(1, map.inputs, key=KEY))
    check_tables(graph, dense(graph))


def test_what_has_no_fast_tables_is_right():
    """Two parents; and categories that lie across places."""
    map = hnca.Convolution(3, 2, 2, image=(2, 2), key=KEY)
    child = hnca.Bernoulli(map.inputs, map.outputs, logits=map)
    nodes = [
        hnca.Node("left", hnca.Categorical(1, 2, units=3, key=KEY), ["x"]),
        hnca.Node("right", hnca.Bernoulli(1, 6, key=KEY), ["x"]),
        hnca.Node("child", child, ["left", "right"]),
    ]
    graph = hnca.Graph(nodes, [hnca.Entropy("child")])
    check_tables(graph, dense(graph), "left")
    check_tables(graph, dense(graph), "right")
    graph = with_parent(map, hnca.Categorical(1, 2, units=6, key=KEY))
    check_tables(graph, dense(graph))


def tiny_vae() -> Case:
    """4 x 4 pixels, 4 units, 2 units."""
    graph = conv_vae((4, 4), (1, 2), kernel=3, key=KEY)
    return Case(lively(graph), {"x": bits(2, 16)})


def test_unbiased():
    check_unbiased(tiny_vae(), {name: ESTIMATORS[name] for name in ("reinforce", "hnca")})


@pytest.mark.slow
def test_gradient_variance_is_that_of_per_example_gradients():
    case, estimator = tiny_vae(), hnca.HNCA()
    sample = case.graph.sample(KEY, x=bits(6, 16))
    one = lambda sample, _: estimator(case.graph, sample, estimator.init(case.graph))[0]
    variances = hnca.gradient_variance(case.graph, sample, eqx.filter_jit(one)(sample, None))
    grads = of_single_samples(lambda *each: one(*each).grads, sample, None)
    assert set(variances) == {"h1", "h2", "p:x", "p:h1", "p:h2"}
    for part in (*grads.nodes, *(each for each in grads.objective if each.name in variances)):
        flat = np.concatenate([leaf.reshape(6, -1) for leaf in jax.tree.leaves(part)], axis=1)
        np.testing.assert_allclose(variances[part.name], flat.var(axis=0).mean(), rtol=1e-9)


def test_the_picture_of_units():
    map = hnca.Convolution(1, 6, 2, stride=2, image=(4, 6), key=KEY)
    assert (map.image, map.shape) == ((4, 6, 1), (2, 3, 6))
    assert (map.inputs, map.outputs) == (24, 36)
    assert hnca.Bernoulli(24, 36, logits=map).shape == (2, 3, 6)
    assert hnca.Categorical(24, 3, units=12, logits=map).shape == (2, 3, 2)
    assert hnca.Categorical(24, 4, units=9, logits=map).shape == (9,)  # across places
    assert hnca.Bernoulli(24, 36, key=KEY).shape == (36,)


@pytest.mark.parametrize(
    ("image", "settings", "shape"),
    [
        ((7, 8), {"stride": 2, "padding": "same"}, (4, 4)),
        ((7, 8), {"stride": 2, "padding": 1}, (4, 4)),
        ((7, 8), {"stride": 1, "padding": 0}, (5, 6)),
        ((7, 8), {"stride": 2, "padding": "same", "transposed": True}, (14, 16)),
        ((7, 8), {"stride": 2, "padding": 1, "transposed": True}, (13, 15)),
        ((7, 8), {"stride": 1, "padding": 0, "transposed": True}, (9, 10)),
    ],
)
def test_sizes(image, settings, shape):
    map = hnca.Convolution(2, 5, 3, image=image, key=KEY, **settings)
    assert map.shape == (*shape, 5)


@pytest.mark.parametrize("transposed", [False, True])
def test_no_examples(transposed):
    map = hnca.Convolution(1, 2, 3, image=(4, 4), transposed=transposed, key=KEY)
    assert map.of_batch(jnp.zeros((0, 16))).shape == (0, map.outputs)


def test_pictures_are_computed_once():
    """XLA for CPUs leaves the calls that keep logits out of the fusions that read them."""
    map = hnca.Convolution(1, 2, 3, image=(4, 4), key=KEY)
    loss = lambda map, x: jnp.sum(jax.nn.softplus(map.of_batch(x)))
    compiled = jax.jit(jax.grad(loss)).lower(map, jnp.zeros((5, 16))).compile()
    assert 'inlineable="false"' in compiled.as_text()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernel": 0}, "sizes do not make sense"),
        ({"image": (4, 0)}, "sizes do not make sense"),
        ({"kernel": 2, "stride": 3}, "a stride of 3 skips inputs of a kernel of 2"),
        ({"padding": -1}, "padding is a number from 0 on or 'same', not -1"),
        ({"padding": "valid"}, "padding is a number from 0 on or 'same', not 'valid'"),
        ({"kernel": 5}, "a kernel of 5 does not fit into 4: pad more"),
        ({"padding": 4, "transposed": True}, "nothing is left of 4: pad less"),
    ],
)
def test_what_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        hnca.Convolution(1, 1, **({"kernel": 2, "image": (4, 4), "key": KEY} | settings))


def test_sizes_that_do_not_fit_a_layer():
    map = hnca.Convolution(1, 2, 2, image=(3, 3), key=KEY)
    node = hnca.Node("h", hnca.Bernoulli(9, 7, logits=map), ["x"])
    with pytest.raises(ValueError, match=r"'h': its logits must map \[9\] to \[7\]"):
        hnca.Graph([node])
    with pytest.raises(ValueError, match="2 layers halve height and width as often"):
        conv_vae((6, 8), (2, 2), key=KEY)
