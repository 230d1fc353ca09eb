"""The graph at values between the choices, and the methods that look there."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hnca
from enumeration import assert_trees_close, estimates, expectation
from graphs import Case, bits, categorical_hidden, keys, linear_and_function, lively, mixed_codings
from hnca import Bernoulli, Categorical, Function, Graph, Node
from hnca.estimators.relaxed import concrete, gumbel_given, log_policy

KEY = jax.random.key(3)
DRAWS = 100_000


def without_reward(case: Case) -> Case:
    parts = [part for part in case.graph.objective if not part.opaque]
    return Case(Graph(case.graph.nodes, parts), case.context)


@pytest.mark.parametrize("make", [mixed_codings, categorical_hidden, linear_and_function])
def test_a_choice_is_a_relaxed_value(make):
    """At the corners, the graph at relaxed values is the graph: values, logits, log_prob; and it
    is linear in the relaxed value of what `LogProb` is of."""
    graph, context = without_reward(make())
    sample = graph.sample(KEY, **context)
    pick = lambda node, _: node.layer.blend(node.layer.indicator(sample[node.name]))
    corner = graph.forward(sample.values, pick)
    for node in graph.nodes:
        expanded = graph.expand(sample, node.name)
        np.testing.assert_allclose(graph.expand(corner, node.name), expanded, rtol=1e-12)
    assert_trees_close(corner.logits, sample.logits)
    assert_trees_close(corner.log_prob, sample.log_prob)
    assert_trees_close(graph.component_values(corner), graph.component_values(sample))


def test_log_prob_is_linear_between_the_choices():
    for layer in (Bernoulli(1, 2, values=(0.5, -2), key=KEY), Categorical(1, 3, units=2, key=KEY)):
        logits = layer(jnp.ones((1, 1))) + jnp.linspace(-1, 1, layer.width).reshape(
            1, *layer.logits_shape
        )
        weights = jax.nn.softmax(jax.random.normal(KEY, (layer.choices, 1, layer.units)), axis=0)
        log_policy_of = log_policy(layer, logits)
        expected = jnp.sum(weights * log_policy_of)
        np.testing.assert_allclose(layer.log_prob(logits, layer.blend(weights))[0], expected)
        np.testing.assert_allclose(layer.indicator(layer.blend(weights)), weights, rtol=1e-12)


@pytest.mark.parametrize(
    "layer", [Bernoulli(0, 2, key=KEY), Categorical(0, 3, units=2, key=KEY)], ids=["two", "three"]
)
def test_noise_behind_a_choice(layer):
    """It is largest where the choice is, and over all choices it is Gumbel noise: its mean and
    variance, and none of it goes with another choice's."""
    logits = jnp.linspace(-1.5, 1, layer.width).reshape(1, *layer.logits_shape)
    logits = jnp.tile(logits, (DRAWS, *[1] * (logits.ndim - 1)))
    draw, other = jax.random.split(KEY)
    values = layer.sample(logits, draw)
    perturbed = gumbel_given(layer, logits, values, other)
    np.testing.assert_array_equal(jnp.argmax(perturbed, axis=0), layer.choice(values))
    noise = np.asarray(perturbed - log_policy(layer, logits))
    assert np.all(np.abs(noise.mean(axis=1) - np.euler_gamma) < 5 * np.pi / 6**0.5 / DRAWS**0.5)
    np.testing.assert_allclose(noise.var(axis=1), np.pi**2 / 6, rtol=0.05)
    correlation = np.corrcoef(noise[:, :, 0]) - np.eye(layer.choices)
    assert np.all(np.abs(correlation) < 5 / DRAWS**0.5)


def one_unit(fn, values=(0, 1)) -> Graph:
    layer = Bernoulli(0, 1, values=values, key=KEY)
    graph = Graph([Node("b", layer)], [Function("f", lambda b, x: fn(b[..., 0]), ["b", "x"])])
    return jax.tree.map(lambda leaf: leaf + 0.4, graph)


@pytest.mark.parametrize(
    ("estimator", "at_choice"),
    [(hnca.GumbelSoftmax(0.7), False), (hnca.GumbelStraightThrough(0.7), True)],
)
def test_gumbel_softmax_of_one_unit(estimator, at_choice):
    """Its mean, by quadrature: E[f'(v) dw/dlogit], with w the relaxed value, at v = w or at the
    choice."""
    graph, fn = one_unit(jnp.exp, values=(-1, 2)), jnp.exp
    layer = graph["b"].layer
    uniform = (jnp.arange(DRAWS) + 0.5) / DRAWS
    noise = jnp.stack([jnp.zeros(DRAWS), jnp.log(uniform) - jnp.log1p(-uniform)])[:, :, None]
    relaxed = lambda logit: concrete(
        layer, log_policy(layer, jnp.full((DRAWS, 1), logit)) + noise, 0.7
    )
    w, slope = jax.jvp(relaxed, (jnp.asarray(0.4),), (jnp.asarray(1.0),))
    where = jnp.where(w > 0.5, 2.0, -1.0) if at_choice else w
    expected = float(jnp.mean(jax.grad(lambda v: fn(v).sum())(where) * slope))
    sample = graph.sample(KEY, x=jnp.zeros((DRAWS, 1)))
    credit = np.asarray(estimator(graph, sample, {}, key=jax.random.key(4))[0].credit["b"])
    assert abs(credit.mean() - expected) < 5 * credit.std() / DRAWS**0.5


def test_reinmax_is_exact_to_second_order():
    """One unit, any coding, a quadratic objective; straight-through is not, nor is a cubic."""
    values = (-1, 2)

    def bias(estimator, fn):
        case = Case(one_unit(fn, values), {"x": jnp.zeros((1, 1))})
        _, gradient = hnca.exact_gradient(case.graph, **case.context)
        ((estimate, probability),) = estimates(case, estimator, [{}])
        mean = expectation(estimate.grads, probability)
        biases = (each.nodes[0].layer.logits.bias for each in (mean, gradient))
        return abs(float(np.squeeze(next(biases)) - np.squeeze(next(biases))))

    quadratic, cubic = (lambda b: 3 * b**2 - b), (lambda b: b**3)
    assert bias(hnca.ReinMax(), quadratic) < 1e-12
    assert bias(hnca.StraightThrough(), quadratic) > 0.1
    assert bias(hnca.ReinMax(), cubic) > 0.1


def test_straight_through_of_categories_is_right_where_all_is_linear():
    slope = jnp.arange(6.0).reshape(2, 3) ** 2
    layer = Categorical(2, 3, units=2, key=next(keys()))
    graph = lively(
        Graph(
            [Node("c", layer, ["x"])],
            [Function("f", lambda c: jnp.einsum("...uk,uk->...", c, slope), ["c"])],
        )
    )
    context = {"x": bits(2, 2)}
    _, exact = hnca.exact_gradient(graph, **context)
    estimate, _ = hnca.StraightThrough()(graph, graph.sample(KEY, **context), {})
    assert_trees_close(estimate.grads, exact)


def test_temperatures_are_above_zero():
    for method in (hnca.GumbelSoftmax, hnca.GumbelStraightThrough):
        with pytest.raises(ValueError, match=f"{method.__name__}: temperature must be above 0"):
            method(0.0)
