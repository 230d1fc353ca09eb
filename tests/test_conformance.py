"""What every registered estimator has to do: one table, a row a test, a column a method."""

import re
from collections.abc import Callable
from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hnca
from enumeration import assert_trees_close, estimates, expectation
from graphs import (
    Case,
    bandit,
    bits,
    categorical_hidden,
    elbo,
    keys,
    lively,
    mixed_codings,
    two_heads,
)
from hnca import Bernoulli, Entropy, Function, Graph, LogProb, Node
from hnca.counterfactual import Counterfactuals
from hnca.estimators import REGISTRY, LeaveOneOut, make_estimator

KEY = jax.random.key(7)
DRAWS = 100_000
METHODS = list(REGISTRY)
DRAWING = [  # samples of their own
    "hnca+loo",
    "reinforce+loo",
    "loo",
    "loo-independent",
    "disarm",
    "arm",
    "double-cv",
    "rebar",
    "relax",
    "gumbel-softmax",
    "gumbel-straight-through",
]
OF_LIKELIHOOD = ["vimco", "importance-em"]  # another objective: tests/test_multi_sample.py
OF_ANYTHING = [name for name in METHODS if name not in OF_LIKELIHOOD]
QUICK = ["hnca+baseline", "reinforce", "loo", "disarm", "rebar"]
SCALED = ["nvil"]  # the gradient of each node, divided by a number that the state has
BERNOULLI_ONLY = ["disarm", "arm"]


def some_quick(names: list[str]) -> list:
    """All methods, of which a change need not wait for all."""
    slow = lambda name: pytest.param(name, marks=pytest.mark.slow)
    return [name if name in QUICK else slow(name) for name in names]


def tiny() -> Case:
    """Two layers, a skip connection, both codings: every kind of path, few units."""
    k = keys(3)
    graph = Graph(
        nodes=[
            Node("h1", Bernoulli(2, 2, key=next(k)), ["x"]),
            Node("h2", Bernoulli(4, 2, values=(-1, 1), key=next(k)), ["h1", "x"]),
        ],
        objective=[
            LogProb("x", Bernoulli(4, 2, key=next(k)), ["h1", "h2"]),
            LogProb("h1", Bernoulli(2, 2, key=next(k)), ["h2"]),
            LogProb("h2", Bernoulli(0, 2, values=(-1, 1), key=next(k))),
            Entropy("h1"),
            Entropy("h2"),
        ],
    )
    return Case(lively(graph), {"x": bits(1, 2)})


def deep() -> Case:
    """Four layers in a row and a skip connection from the first to the last: what is drawn anew
    below the first is the child of what was, and so on."""
    k = keys(5)
    graph = Graph(
        nodes=[
            Node("h1", Bernoulli(1, 2, key=next(k)), ["x"]),
            Node("h2", Bernoulli(2, 1, values=(-1, 1), key=next(k)), ["h1"]),
            Node("h3", Bernoulli(1, 1, key=next(k)), ["h2"]),
            Node("h4", Bernoulli(3, 1, key=next(k)), ["h3", "h1"]),
        ],
        objective=[
            Function("f", lambda h3, h4: 3 * h3[..., 0] - 2 * h3[..., 0] * h4[..., 0], ["h3", "h4"])
        ],
    )
    return Case(jax.tree.map(lambda leaf: 2 * leaf, lively(graph)), {"x": jnp.ones((1, 1))})


def elbo_3() -> Case:
    return elbo(3)


def skip_connection() -> Case:
    """As in graphs.py, with Bernoulli units only and an objective that all methods can evaluate."""
    k = keys()
    graph = Graph(
        [
            Node("h1", Bernoulli(2, 2, key=next(k)), ["x"]),
            Node("h2", Bernoulli(2, 2, key=next(k)), ["h1"]),
            Node("h3", Bernoulli(6, 2, key=next(k)), ["h2", "x", "h1"]),
        ],
        [hnca.Linear("f", 4, 3, jnp.sin, parents=["h3", "h1"], key=next(k))],
    )
    return Case(lively(graph), {"x": bits(1, 2)})


def categories() -> Case:
    graph, context = categorical_hidden()
    return Case(Graph(graph.nodes, graph.objective[:-1]), context)  # without its reward


def opaque() -> Case:
    return bandit(2)


def one_estimate(name: str, graph: Graph, sample: hnca.Sample, key=KEY) -> hnca.Estimate:
    estimator = make_estimator(name)
    return estimator(graph, sample, estimator.init(graph, key=KEY), key=key)[0]


def stirred(state):
    """A method's own parameters, away from where they start: unbiased with any."""
    leaves, structure = jax.tree.flatten(state)
    keys = jax.random.split(KEY, max(1, len(leaves)))
    real = lambda leaf: jnp.issubdtype(leaf.dtype, jnp.floating)
    moved = [
        leaf + 0.3 * jax.random.normal(key, leaf.shape, leaf.dtype) if real(leaf) else leaf
        for leaf, key in zip(leaves, keys, strict=False)
    ]
    return jax.tree.unflatten(structure, moved)


@cache
def mean_and_error(name: str, make: Callable[[], Case], rounds: int):
    """Mean of many independent estimates of one example, and its standard error."""
    case, estimator = make(), make_estimator(name)
    context = {name: array[:1] for name, array in case.context.items()}
    state = stirred(estimator.init(case.graph, key=KEY))

    def one(key):
        first, second = jax.random.split(key)
        sample = case.graph.sample(first, **context)
        reward = case.world(sample)
        return estimator(case.graph, sample, state, reward=reward, key=second)[0].grads

    @jax.jit
    def moments(key):
        grads = jax.vmap(one)(jax.random.split(key, DRAWS))
        leaves = jax.tree.leaves(eqx.filter(grads, eqx.is_array))
        return [(jnp.mean(leaf, axis=0), jnp.mean(leaf**2, axis=0)) for leaf in leaves]

    results = [moments(key) for key in jax.random.split(KEY, rounds)]
    means = jax.tree.map(lambda *each: np.mean(each, axis=0), *results)
    spread = lambda mean, square: np.sqrt(np.maximum(square - mean**2, 0) / (rounds * DRAWS))
    return [(mean, spread(mean, square)) for mean, square in means]


def largest_z(name: str, make: Callable[[], Case] = deep, rounds: int = 1) -> float:
    case = make()
    context = {name: array[:1] for name, array in case.context.items()}
    exact = jax.tree.leaves(hnca.exact_gradient(case.graph, reward=case.world, **context)[1])
    moments = mean_and_error(name, make, rounds)
    scores = [
        np.abs(mean - truth) / np.maximum(error, 1e-12)
        for (mean, error), truth in zip(moments, exact, strict=True)
    ]
    return max(float(score.max()) for score in scores if score.size)


@pytest.mark.parametrize("name", some_quick(OF_ANYTHING))
def test_unbiased(name):
    """By exact expectation, or where a method draws samples of its own, by z-scores of every
    coordinate. A biased method has to fail."""
    case, estimator = tiny(), make_estimator(name)
    if name in DRAWING:
        assert (largest_z(name) < 5) == estimator.unbiased
        return
    _, gradient = hnca.exact_gradient(case.graph, **case.context)
    ((estimate, probability),) = estimates(case, estimator, [estimator.init(case.graph, key=KEY)])
    mean = expectation(estimate.grads, probability)
    if estimator.unbiased:
        assert_trees_close(mean, gradient)
        return
    if name in SCALED:
        return  # unbiased before it has seen anything; then: the next row
    pairs = zip(jax.tree.leaves(mean), jax.tree.leaves(gradient), strict=True)
    bias = [np.abs(np.squeeze(m) - np.squeeze(g)) for m, g in pairs]
    worst = max(float(part.max()) for part in bias if part.size)
    print(f"{name}: largest bias of a coordinate {worst:.3f}")
    assert worst > 0.01, "called biased, but is not"


@pytest.mark.parametrize("name", SCALED)
def test_scaled_methods_are_biased_in_length_alone(name):
    """After some batches, the exact expectation for a node is its gradient, divided by the
    deviation of what was left of the signal, which the state has."""
    case, estimator = tiny(), make_estimator(name)
    state = estimator.init(case.graph, key=KEY)
    for key in jax.random.split(KEY, 5):
        sample = case.graph.sample(key, x=bits(8, 2))
        _, state = estimator(case.graph, sample, state)
    _, gradient = hnca.exact_gradient(case.graph, **case.context)
    ((estimate, probability),) = estimates(case, estimator, [state])
    mean = expectation(estimate.grads, probability)
    deviations = [jnp.sqrt(fit.residual / (1 - 0.99**5)) for fit in state.values()]
    assert len(deviations) == len(gradient.nodes)
    assert max(deviations) > 1.1, "nothing was divided"
    wanted = eqx.tree_at(
        lambda graph: graph.nodes,
        gradient,
        tuple(
            jax.tree.map(lambda leaf, by=by: leaf / jnp.maximum(1, by), node)
            for node, by in zip(gradient.nodes, deviations, strict=True)
        ),
    )
    assert_trees_close(mean, wanted)


def test_straight_through_is_right_where_all_is_linear():
    """Its size, that is: d f / d logit = slope x (1 - -1) x p (1 - p), whatever was drawn."""
    slope = jnp.array([0.5, -2.0, 1.0])
    layer = Bernoulli(2, 3, values=(-1, 1), key=KEY)
    graph = Graph([Node("h", layer, ["x"])], [Function("f", lambda h: h @ slope, ["h"])])
    sample = lively(graph).sample(KEY, x=bits(5, 2))
    p = jax.nn.sigmoid(sample.logits["h"])
    credit = one_estimate("straight-through", lively(graph), sample).credit["h"]
    np.testing.assert_allclose(credit, slope[None] * 2 * p * (1 - p), rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "make"),
    [
        *((name, make) for name in DRAWING for make in (elbo_3, skip_connection, mixed_codings)),
        *((name, categories) for name in DRAWING if name not in BERNOULLI_ONLY),
        ("relax", opaque),
    ],
)
def test_unbiased_to_many_draws(name, make):
    """Three layers; a skip connection; mixed codings; categories; a reward: every coordinate, of
    half a million draws."""
    assert (largest_z(name, make, rounds=5) < 5) == make_estimator(name).unbiased


def test_z_scores_can_fail():
    """The bias of straight-through would be seen by the sampling row as well."""
    assert largest_z("straight-through") > 5


@pytest.mark.parametrize("name", some_quick(METHODS))
def test_jit_vmap_and_pytree_state(name):
    case, estimator = tiny(), make_estimator(name)
    state = estimator.init(case.graph, key=KEY)
    assert all(eqx.is_array(leaf) for leaf in jax.tree.leaves(state))
    keys = jax.random.split(KEY, 3)

    def run(key):
        sample = case.graph.sample(key, **case.context)
        estimate, after = estimator(case.graph, sample, state, key=key)
        return estimate.credit, estimate.grads, estimate.value, after

    side_by_side = jax.vmap(run)(keys)
    one_by_one = [jax.jit(run)(key) for key in keys]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *one_by_one)
    assert_trees_close(side_by_side, stacked, rtol=1e-9)
    assert jax.tree.structure(one_by_one[0][3]) == jax.tree.structure(state)


@pytest.mark.parametrize(
    "name", some_quick([name for name in OF_ANYTHING if name != "local-expectation"])
)
def test_linear_in_the_weights_of_components(name):
    """So an estimate that is unbiased without weights is so with any, for every example alone.
    The samples that a method draws depend on the key, not on the weights."""
    case, estimator = tiny(), make_estimator(name)
    parts, batch = [part.name for part in case.graph.objective], 3
    sample = case.graph.sample(KEY, x=jnp.tile(case.context["x"], (batch, 1)))

    def run(weights):
        state = estimator.init(case.graph, key=KEY)
        estimate, _ = estimator(case.graph, sample, state, key=KEY, weights=weights)
        return estimate.credit, estimate.grads, estimate.value

    by_name = jax.vmap(lambda table: run(dict(zip(parts, table, strict=True))))
    some = np.random.default_rng(0).normal(size=(2, len(parts), batch))
    alone = np.zeros((batch, len(parts), batch))
    alone[np.arange(batch), :, np.arange(batch)] = some[0].T
    tables = jnp.concatenate([some, 2 * some[:1] - 3 * some[1:], alone, jnp.ones_like(some[:1])])
    results = by_name(tables)
    take = lambda place: jax.tree.map(lambda leaf: leaf[place], results)
    mixed = jax.tree.map(lambda one, other: 2 * one - 3 * other, take(0), take(1))
    assert_trees_close(take(2), mixed, rtol=1e-10)
    apart = jax.tree.map(lambda *leaves: sum(leaves), *(take(3 + each) for each in range(batch)))
    assert_trees_close(apart, take(0), rtol=1e-10)
    assert_trees_close(take(-1), run(None), rtol=1e-10)


@pytest.mark.parametrize("name", ["hnca+baseline", "loo-independent"])
def test_the_weight_of_an_example_multiplies_its_credit(name):
    """In every sample that is credited; and no weight is no credit at all."""
    case, estimator = tiny(), make_estimator(name)
    sample = case.graph.sample(KEY, x=jnp.tile(case.context["x"], (3, 1)))
    state = jax.tree.map(lambda leaf: leaf + 0.7, estimator.init(case.graph, key=KEY))
    run = lambda weights: estimator(case.graph, sample, state, key=KEY, weights=weights)
    (plain, plain_state), (made, made_state) = run(None), run(jnp.array([0.0, 1.0, 2.0]))
    np.testing.assert_allclose(made.value, plain.value * np.array([0, 1, 2]), rtol=1e-12)
    credits = [(made.credit, plain.credit)]
    credits += [(m, p) for (_, m), (_, p) in zip(made.others, plain.others, strict=True)]
    assert len(credits) == (2 if name == "loo-independent" else 1)
    for mine, theirs in credits:
        for layer, each in mine.items():
            expected = np.asarray(theirs[layer]) * np.array([0, 1, 2])[:, None]
            np.testing.assert_allclose(each, expected, rtol=1e-10, atol=1e-14)
            assert np.all(each[0] == 0)
    for one, other in zip(jax.tree.leaves(made_state), jax.tree.leaves(plain_state), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", some_quick(METHODS))
def test_one_trace_per_shape(name):
    case, estimator, traces = tiny(), make_estimator(name), []

    @eqx.filter_jit
    def run(graph, state, key):
        traces.append(None)
        sample = graph.sample(key, **case.context)
        return estimator(graph, sample, state, key=key)

    state = estimator.init(case.graph, key=KEY)
    for key in jax.random.split(KEY, 3):
        _, state = run(case.graph, state, key)
    assert len(traces) == 1


@pytest.mark.parametrize("name", some_quick(OF_ANYTHING))
def test_a_constant_objective_gives_no_credit_on_average(name):
    k = keys()
    graph = Graph(
        [
            Node("h1", Bernoulli(2, 2, key=next(k)), ["x"]),
            Node("h2", Bernoulli(2, 2, key=next(k)), ["h1"]),
        ],
        [Function("constant", lambda h1, h2: 3 + 0 * h1.sum(-1) + 0 * h2.sum(-1), ["h1", "h2"])],
    )
    sample = lively(graph).sample(KEY, x=jnp.ones((DRAWS, 2)))
    for credit in one_estimate(name, lively(graph), sample).credit.values():
        error = np.std(credit, axis=0) / DRAWS**0.5
        assert np.all(np.abs(np.mean(credit, axis=0)) <= 5 * error + 1e-12)


@pytest.mark.parametrize("name", some_quick(OF_ANYTHING))
def test_no_credit_from_what_a_layer_cannot_reach(name):
    k = keys()
    graph = Graph(
        [
            Node("h", Bernoulli(2, 2, key=next(k)), ["x"]),
            Node("left", Bernoulli(2, 2, key=next(k)), ["h"]),
            Node("right", Bernoulli(2, 2, key=next(k)), ["h"]),
        ],
        [Function("cost", lambda left: left @ jnp.array([1.0, -2.0]), ["left"])],
    )
    sample = graph.sample(KEY, x=jnp.ones((20, 2)))
    credit = one_estimate(name, graph, sample).credit
    assert np.all(credit["right"] == 0)
    assert np.any(credit["left"] != 0)
    assert np.any(credit["h"] != 0)


@pytest.mark.parametrize("name", some_quick(METHODS))
def test_refusals(name):
    estimator = make_estimator(name)
    policy, (latents, context) = bandit(1).graph, categorical_hidden()
    sample = policy.sample(KEY, x=jnp.ones((4, 3)))
    state = estimator.init(policy, key=KEY)
    call = lambda: estimator(policy, sample, state, reward=jnp.ones(4), key=KEY)
    if estimator.needs_objective:
        message = "Reward 'reward' is known only for what was done; use .* as hnca and reinforce do"
        with pytest.raises(ValueError, match=message):
            call()
    else:
        assert call()[0].value.shape == (4,)
    graph = Graph(latents.nodes, latents.objective[:-1])  # categorical, nothing opaque
    sample = graph.sample(KEY, **context)
    refusal = {
        **dict.fromkeys(BERNOULLI_ONLY, "is for Bernoulli units; node 'c' has others"),
        **dict.fromkeys(OF_LIKELIHOOD, "a LogProb of every node with an Entropy, but 'd' has none"),
    }
    if name in refusal:
        with pytest.raises(ValueError, match=refusal[name]):
            one_estimate(name, graph, sample)
    else:
        assert one_estimate(name, graph, sample).credit["c"].shape == (2, 2, 3)
    if name == "relax":
        with pytest.raises(ValueError, match="Relax draws a network for each node: pass key= to"):
            estimator.init(graph)
    if name in (*DRAWING, *OF_LIKELIHOOD):
        case = tiny()
        sample = case.graph.sample(KEY, **case.context)
        with pytest.raises(ValueError, match="draws samples of its own: pass key="):
            one_estimate(name, case.graph, sample, key=None)


@pytest.mark.parametrize("name", ["hnca", "disarm", "arm"])
def test_codings_that_are_not_exact_in_float32(name):
    """A unit of 0.1 and 0.7 is treated as fired when it has, though 0.7 - 0.1 is rounded."""
    with jax.enable_x64(False):
        layer = Bernoulli(0, 1, values=(0.1, 0.7), key=KEY)
        read = lambda b, x: 5 * b[..., 0] ** 2
        graph = Graph([Node("b", layer)], [Function("f", read, ["b", "x"])])
        sample = graph.sample(KEY, x=jnp.zeros((DRAWS, 1)))
        graph.observe(**sample.values)
        credit = np.asarray(one_estimate(name, graph, sample).credit["b"], np.float64)
    error = np.std(credit) / DRAWS**0.5
    assert abs(np.mean(credit) - 0.25 * 5 * (0.49 - 0.01)) <= 5 * error + 1e-6


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16, jnp.float32])
def test_any_precision(dtype):
    """Parameters of low precision under x64, through every kernel."""
    k = keys()
    graph = Graph(
        [
            Node("a", Bernoulli(2, 40, key=next(k)), ["x"]),
            Node("b", hnca.Categorical(40, 3, units=2, key=next(k)), ["a"]),
            Node("c", Bernoulli(6, 40, key=next(k)), ["b"]),
            Node("d", Bernoulli(40, 40, key=next(k)), ["c"]),
        ],
        [Function("f", lambda d: d.sum(-1) > 20, ["d"]), Entropy("d"), Entropy("b")],
    )
    graph = jax.tree.map(lambda leaf: leaf.astype(dtype), graph)
    sample = graph.sample(KEY, x=jnp.ones((3, 2), dtype))
    for credit in one_estimate("hnca", graph, sample).credit.values():
        assert np.all(np.isfinite(np.asarray(credit, np.float64)))


@pytest.mark.parametrize("make", [tiny, two_heads, categorical_hidden])
def test_local_expectation_is_hnca_by_brute_force(make):
    case, baseline = make(), hnca.MovingAverage()
    sample = case.graph.sample(KEY, **case.context)
    fast, slow = hnca.HNCA(baseline), hnca.LocalExpectation(baseline)
    assert Counterfactuals(case.graph, sample, brute_force=True).brute_force
    results = [
        each(case.graph, sample, each.init(case.graph), reward=case.world(sample))
        for each in (fast, slow)
    ]
    assert_trees_close(results[1], results[0], rtol=1e-9)


def test_more_samples_less_variance():
    """Leave-one-out with four samples instead of two; DisARM instead of ARM."""
    case = elbo(2)
    sample = case.graph.sample(KEY, x=jnp.tile(case.context["x"], (10_000, 1)))

    def spread(estimator):
        estimate, _ = estimator(case.graph, sample, {}, key=KEY)
        return float(np.var(estimate.credit["h1"], axis=0).sum())

    assert spread(LeaveOneOut(4)) < 0.8 * spread(LeaveOneOut(2))
    assert spread(hnca.DisARM()) < 0.95 * spread(hnca.ARM())


def test_variance_counts_all_samples_of_independent_passes():
    """Against per-example gradients, which come from two passes each."""
    case, estimator = elbo(2), make_estimator("loo-independent")
    sample = case.graph.sample(KEY, x=jnp.tile(case.context["x"], (3, 1)))
    estimate, _ = estimator(case.graph, sample, {}, key=KEY)
    ((other, credit),) = estimate.others
    for node in case.graph.nodes:
        name, (parent,) = node.name, node.parents
        each = [
            jnp.einsum("bo,bi->boi", c[name], jnp.concatenate([s[parent], jnp.ones((6, 1))], 1))
            for s, c in ((sample, estimate.credit), (other, credit))
        ]
        expected = np.var(each[0] + each[1], axis=0).mean()
        got = hnca.gradient_variance(case.graph, sample, estimate)[name]
        np.testing.assert_allclose(got, expected, rtol=1e-9)


def test_registry():
    assert METHODS == [
        "hnca",
        "hnca+baseline",
        "hnca+loo",
        "hnca+learned",
        "reinforce",
        "reinforce+baseline",
        "reinforce+loo",
        "reinforce+learned",
        "nvil",
        "loo",
        "loo-independent",
        "disarm",
        "arm",
        "double-cv",
        "muprop",
        "rebar",
        "relax",
        "straight-through",
        "reinmax",
        "gumbel-softmax",
        "gumbel-straight-through",
        "vimco",
        "importance-em",
        "local-expectation",
    ]
    wrong = {
        "hcna": "there is no method 'hcna'",
        "hnca+lo": "there is no baseline 'lo'",
        "disarm+loo": "'disarm' has no baseline",
    }
    for name, why in wrong.items():
        said = f"^unknown estimator '{re.escape(name)}': {why}; choose one of hnca, .*expectation$"
        with pytest.raises(ValueError, match=said):  # in one line
            make_estimator(name)
    composed = make_estimator("reinforce+learned")
    assert isinstance(composed, hnca.Reinforce)
    assert isinstance(composed.baseline, hnca.Learned)
    with pytest.raises(ValueError, match="at least 2 samples"):
        LeaveOneOut(1)
