"""The graph at values between the choices, and the methods that look there."""

import equinox as eqx
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


COEFFICIENT = 0.7


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
    credit = double_credit(graph, take(one), node, both, signals, jnp.array(COEFFICIENT))
    mean = jnp.einsum("n,nu->u", probability[one] * probability[other], credit)
    single = reinforced(node.layer, sample.logits["h1"], sample["h1"], signal)
    np.testing.assert_allclose(mean, jnp.einsum("n,nu->u", probability, single), rtol=1e-10)


def test_double_cv_is_the_published_one():
    """For two samples of a layer whose objective is (b - t)^2, by hand: the slope at a sample is
    2 (b - t), and each sample's control variate has the other's slope."""
    target, p = np.array([0.3, 0.8, -0.5]), np.array([0.2, 0.5, 0.9])
    layer = Bernoulli(0, 3, key=KEY)
    layer = eqx.tree_at(lambda layer: layer.logits.bias, layer, jnp.log(p / (1 - p)))
    square = lambda b, x: jnp.sum((b - jnp.broadcast_to(target, b.shape)) ** 2, axis=-1)
    graph = Graph([Node("b", layer)], [Function("f", square, ["b", "x"])])
    b = np.array([[0.0, 1.0, 1.0], [1.0, 1.0, 0.0]])
    f, slope, score = ((b - target) ** 2).sum(1), 2 * (b - target), b - p
    control = COEFFICIENT * np.array([slope[1] @ (b[0] - p), slope[0] @ (b[1] - p)])
    gain = f[0] - control[0] - (f[1] - control[1])
    wanted = gain * (score[0] - score[1]) / 2 + COEFFICIENT * slope.mean(0) * p * (1 - p)
    sample = graph.observe(x=jnp.zeros((1, 1)), b=jnp.asarray(b[:1]))
    samples, signals = jnp.asarray(b)[:, None], jnp.asarray(f)[:, None]
    found = double_credit(graph, sample, graph["b"], samples, signals, jnp.array(COEFFICIENT))
    np.testing.assert_allclose(found[0], wanted, rtol=1e-12)


def rebar_by_quadrature(logit: float, target: float, temperature: float, scale: float):
    """Mean and variance of REBAR's estimate for E[(b - t)^2] of one unit, from the equations of
    its paper alone: noise u behind z, noise v behind z~ given b, coupled so that z~ = z."""
    sigmoid = lambda a: 1 / (1 + np.exp(-a))
    points, weights = np.polynomial.legendre.leggauss(400)
    v, weights, step = (points + 1) / 2, weights / 2, 1e-5
    stretch = (temperature**2 + temperature + 1) / (temperature + 1)

    def relaxed_f(a, u):
        return (sigmoid((stretch * a + np.log(u) - np.log1p(-u)) / temperature) - target) ** 2

    mean = square = 0
    for b in (0, 1):
        behind = lambda a, b=b: v * sigmoid(a) + 1 - sigmoid(a) if b else v * (1 - sigmoid(a))
        held, p = behind(logit), sigmoid(logit)
        of_z = relaxed_f(logit + step, held) - relaxed_f(logit - step, held)
        given_b = lambda a, behind=behind: relaxed_f(a, behind(a))
        moves = (of_z - given_b(logit + step) + given_b(logit - step)) / (2 * step)
        estimate = (b - p) * ((b - target) ** 2 - scale * given_b(logit)) + scale * moves
        chance = (p if b else 1 - p) * weights
        mean, square = mean + chance @ estimate, square + chance @ estimate**2
    return mean, square - mean**2


@pytest.mark.parametrize(
    ("logit", "temperature", "scale"), [(0.0, 0.5, 1.0), (1.5, 0.5, 0.7), (2.0, 5.0, 1.35)]
)
def test_rebar_is_the_published_one(logit, temperature, scale):
    """Its variance as well, which is a small part of REINFORCE's at a high temperature."""
    graph = one_unit(lambda b: (b - 0.45) ** 2)
    graph = eqx.tree_at(lambda graph: graph.nodes[0].layer.logits.bias, graph, jnp.array([logit]))
    estimator = hnca.Rebar(temperature=temperature)
    sample = graph.sample(KEY, x=jnp.zeros((2 * DRAWS, 1)))
    state = estimator.init(graph)
    own = state.parameters["b"]._replace(scale=jnp.array(scale))
    state = state._replace(parameters={"b": own})
    estimate, _ = estimator(graph, sample, state, key=jax.random.key(8))
    credit = np.asarray(estimate.credit["b"][:, 0])
    mean, variance = rebar_by_quadrature(logit, 0.45, temperature, scale)
    deviations = (credit - credit.mean()) ** 2
    error = lambda values: values.std() / len(values) ** 0.5
    assert abs(credit.mean() - mean) < 5 * error(credit)
    assert abs(deviations.mean() - variance) < 5 * error(deviations)
    if temperature > 1:
        _, reinforce = rebar_by_quadrature(logit, 0.45, temperature, 0.0)
        assert variance < 0.05 * reinforce


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
    double, ones = hnca.DoubleCV(), {name: jnp.ones(()) for name in graph.node_names}
    whole = double.init(graph)._replace(parameters=ones)
    loo = spread(hnca.LeaveOneOut(), graph, sample, {})
    assert spread(double, graph, sample, whole) < 0.8 * loo


@pytest.mark.parametrize("estimator", [hnca.Rebar(0.1, 0.02), hnca.Relax(10, 0.1, 0.02)])
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
