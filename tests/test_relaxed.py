"""The graph at values between the choices, and the methods that look there."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hnca
from enumeration import assert_trees_close, estimates, every_sample, expectation
from graphs import (
    CASES,
    Case,
    bits,
    categorical_hidden,
    elbo,
    keys,
    linear_and_function,
    lively,
    mixed_codings,
)
from hnca import Bernoulli, Categorical, Function, Graph, Node
from hnca.estimators.base import reinforced
from hnca.estimators.double_cv import double_credit
from hnca.estimators.relaxed import concrete, gumbel_given, log_policy
from test_unbiased import check_unbiased

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


def test_relaxed_controls_refuse_temperatures_too():
    for method in (hnca.Rebar, hnca.Relax):
        with pytest.raises(ValueError, match=f"{method.__name__}: temperature must be above 0"):
            method(temperature=-1.0)


@pytest.mark.parametrize(
    "case", ["elbo-3", "mixed-codings", "categorical-hidden", "linear-and-function", "diamond"]
)
def test_muprop_is_unbiased(case):
    """By enumeration, like the methods of test_unbiased.py, where nothing is opaque."""
    check_unbiased(without_reward(CASES[case]()), {"muprop": hnca.MuProp()})


def test_muprop_has_no_variance_where_all_is_linear():
    """Nothing is left to chance, and less is than without it where things are nearly linear."""
    slope = jnp.array([0.5, -2.0, 1.0])
    layer = Bernoulli(2, 3, values=(-1, 1), key=KEY)
    graph = lively(Graph([Node("h", layer, ["x"])], [Function("f", lambda h: h @ slope, ["h"])]))
    sample = graph.sample(KEY, x=jnp.ones((9, 2)))
    credit = hnca.MuProp()(graph, sample, {})[0].credit["h"]
    assert np.all(np.std(credit, axis=0) < 1e-12)
    assert np.all(np.abs(credit) > 0.01)


def test_double_cv_over_all_pairs():
    """The first node of two, for every pair of samples: the mean is that of REINFORCE."""
    case = Case(elbo(2).graph, {"x": bits(1, 3)})
    graph, (sample, _, probability) = case.graph, every_sample(case)
    node, signal = graph["h1"], graph.value(sample)  # all but H:h1, a constant, is downstream
    count = sample.batch
    one, other = (np.repeat(np.arange(count), count), np.tile(np.arange(count), count))
    take = lambda places: jax.tree.map(lambda array: array[places], sample)
    both = jnp.stack([sample["h1"][one], sample["h1"][other]])
    signals = jnp.stack([signal[one], signal[other]])
    credit = double_credit(graph, take(one), node, both, signals)
    mean = jnp.einsum("n,nu->u", probability[one] * probability[other], credit)
    single = reinforced(node.layer, sample.logits["h1"], sample["h1"], signal)
    np.testing.assert_allclose(mean, jnp.einsum("n,nu->u", probability, single), rtol=1e-10)


def spread(estimator, graph, sample, state) -> float:
    estimate, _ = estimator(graph, sample, state, key=jax.random.key(5))
    return float(sum(np.var(estimate.credit[name], axis=0).sum() for name in graph.node_names))


@pytest.mark.slow
def test_control_variates_lower_the_variance():
    """Each against the method that it is a control variate of."""
    graph, context = elbo(2)
    sample = graph.sample(KEY, x=jnp.tile(context["x"][:1], (5000, 1)))
    reinforce = hnca.Reinforce()
    plain = spread(reinforce, graph, sample, reinforce.init(graph))
    assert spread(hnca.MuProp(), graph, sample, {}) < 0.2 * plain
    rebar = hnca.Rebar()
    assert spread(rebar, graph, sample, rebar.init(graph)) < 0.2 * plain
    assert spread(hnca.DoubleCV(), graph, sample, {}) < 0.8 * spread(
        hnca.LeaveOneOut(), graph, sample, {}
    )


@pytest.mark.parametrize("estimator", [hnca.Rebar(2.0, 0.02), hnca.Relax(10, 2.0, 0.02)])
def test_control_variates_learn(estimator):
    """From a poor temperature, to less variance; a batch of NaN teaches them nothing."""
    graph, context = elbo(1)
    x = jnp.tile(context["x"], (50, 1))
    first = state = estimator.init(graph, key=KEY)

    def step(state, key):
        one, two = jax.random.split(key)
        return estimator(graph, graph.sample(one, x=x), state, key=two)[1], None

    state, _ = jax.jit(lambda state: jax.lax.scan(step, state, jax.random.split(KEY, 300)))(state)
    sample = graph.sample(KEY, x=jnp.tile(context["x"][:1], (5000, 1)))
    before, after = (spread(estimator, graph, sample, each) for each in (first, state))
    assert after < 0.85 * before
    poisoned = jax.tree.map(lambda leaf: leaf * jnp.nan, graph)
    _, unmoved = estimator(poisoned, sample, state, key=KEY)
    for one, other in zip(jax.tree.leaves(unmoved), jax.tree.leaves(state), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_relax_starts_as_rebar():
    graph, context = mixed_codings()
    sample = graph.sample(KEY, **context)
    credits = [
        estimator(graph, sample, estimator.init(graph, key=KEY), key=KEY)[0].credit
        for estimator in (hnca.Rebar(), hnca.Relax())
    ]
    assert_trees_close(*credits)
