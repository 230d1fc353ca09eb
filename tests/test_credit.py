"""Gradients, their variance, baselines and the way uphill."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import hnca
from enumeration import assert_trees_close, of_single_samples
from graphs import CASES, bandit, bits, conv_logits, elbo
from hnca.credit import gradients
from hnca.estimators.base import downstream_value, reinforced
from jaxprs import equations

KEY = jax.random.key(4)


def drawn(case, batch=6):
    context = {k: jnp.concatenate([v] * (batch // len(v))) for k, v in case.context.items()}
    return case.graph.sample(KEY, **context)


@pytest.mark.parametrize("case", ["elbo-2", "network-logits", "linear-and-function"])
def test_gradient_variance_is_that_of_per_example_gradients(case):
    case = CASES[case]()
    sample = drawn(case)
    rewards = case.world(sample)
    estimator = hnca.HNCA()
    state = estimator.init(case.graph)
    estimate, _ = estimator(case.graph, sample, state, reward=rewards)
    one = lambda sample, rewards: estimator(case.graph, sample, state, reward=rewards)[0].grads
    grads = of_single_samples(one, sample, rewards)
    parts = {part.name: part for part in (*grads.nodes, *grads.objective)}
    expected = {name: part for name, part in parts.items() if jax.tree.leaves(part)}
    variances = hnca.gradient_variance(case.graph, sample, estimate)
    assert set(variances) == set(expected)
    for name, gradient in expected.items():
        flat = np.concatenate([leaf.reshape(6, -1) for leaf in jax.tree.leaves(gradient)], axis=1)
        np.testing.assert_allclose(variances[name], flat.var(axis=0).mean(), rtol=1e-9)
        assert hnca.parameter_counts(case.graph)[name] == flat.shape[1]


def test_gradient_variance_with_weights():
    """Components with parameters of their own included."""
    case, estimator = CASES["linear-and-function"](), hnca.HNCA()
    sample, state = drawn(case), estimator.init(case.graph)
    numbers = jnp.linspace(-1, 2, 6)
    wrap = lambda numbers: {"tanh": numbers, "quadratic": 0.5}
    run = lambda sample, numbers: estimator(case.graph, sample, state, weights=wrap(numbers))[0]
    estimate = run(sample, numbers)
    grads = of_single_samples(lambda *each: run(*each).grads, sample, numbers)
    assert jax.tree.structure(estimate.grads) == jax.tree.structure(case.graph)
    variances = hnca.gradient_variance(case.graph, sample, estimate)
    for part in (*grads.nodes, *grads.objective[:3]):
        flat = np.concatenate([leaf.reshape(6, -1) for leaf in jax.tree.leaves(part)], axis=1)
        np.testing.assert_allclose(variances[part.name], flat.var(axis=0).mean(), rtol=1e-9)


NOISE = [1, 1e-1, 1e-2, 1e-3, 1e-4]  # relative
PARTS = [(1, 0), (0, 1), (1, 1)]  # in the features only, in the credit only, in both


def made_up(in_x: float, in_credit: float, samples: int):
    """A layer of 4 units with 5 inputs, and what it saw and was credited with in `samples` samples
    of each of 40 examples: constants with relative noise. In float32, with the same in float64."""
    random = np.random.default_rng(0)
    wavy = lambda size, noise: (
        random.normal(3, 1, (1, samples, size))
        * (1 + noise * random.standard_normal((40, samples, size)))
    )
    graph = hnca.Graph([hnca.Node("h", hnca.Bernoulli(5, 4, key=KEY), ["x"])])
    x, c = wavy(5, in_x).astype(np.float32), wavy(4, in_credit).astype(np.float32)
    first, rest = slice(0, 1), slice(1, None)

    def pair(which):
        inputs, credit = (jnp.asarray(a[:, which]).reshape(-1, a.shape[2]) for a in (x, c))
        return graph.sample(KEY, x=inputs), {"h": credit}

    assigned = [pair(first), *([pair(rest)] if samples > 1 else [])]
    return graph, assigned, x.astype(np.float64), c.astype(np.float64)


@pytest.mark.parametrize("samples", [1, 3])
def test_variance_of_nearly_constant_gradients(samples):
    """In float32, where the square of the mean has fewer digits than the variance is small."""
    for in_x, in_credit in [(0, 0), *((a * e, b * e) for a, b in PARTS for e in NOISE)]:
        with jax.enable_x64(False):
            graph, assigned, x, c = made_up(in_x, in_credit, samples)
            (sample, credit), *others = assigned
            grads = eqx.filter_jit(gradients)(graph, assigned)
            estimate = hnca.Estimate(credit, grads, jnp.zeros(40), tuple(others))
            got = float(hnca.gradient_variance(graph, sample, estimate)["h"])
        inputs = np.concatenate([x, np.ones((40, samples, 1))], axis=2)
        each = np.einsum("bso,bsi->boi", c, inputs)
        np.testing.assert_allclose(got, each.var(axis=0).mean(), rtol=1e-4, atol=1e-11)


def of_each_example(graph, sample, estimate):
    """The gradient of every example, from all of its samples."""
    split = lambda array: array.reshape(sample.batch, -1, *array.shape[1:])
    every = jax.tree.map(split, [(sample, estimate.credit), *estimate.others])
    return eqx.filter_jit(jax.vmap(lambda assigned: gradients(graph, assigned)))(every)


def test_variance_counts_every_sample_of_an_example():
    """Of linear maps, of any others, and of a component's own parameters."""
    k = jax.random.split(KEY, 4)
    mlp = eqx.nn.MLP(3, 2, width_size=4, depth=1, activation=jnp.tanh, key=k[0])
    graph = hnca.Graph(
        [
            hnca.Node("h1", hnca.Bernoulli(4, 3, logits=conv_logits(2, 3, k[1])), ["x"]),
            hnca.Node("h2", hnca.Bernoulli(3, 2, logits=mlp), ["h1"]),
            hnca.Node("h3", hnca.Bernoulli(2, 2, key=k[2]), ["h2"]),
        ],
        [
            hnca.Linear("f", 7, 2, jnp.tanh, ["h1", "h2", "h3"], key=k[3]),
            hnca.LogProb("h1", hnca.Bernoulli(2, 3, key=k[3]), ["h3"]),
        ],
    )
    sample = graph.sample(KEY, x=bits(6, 4))
    estimate, _ = hnca.LeaveOneOut(4, "independent")(graph, sample, {}, key=KEY)
    ((others, _),) = estimate.others
    assert others.batch == 3 * 6
    np.testing.assert_array_equal(others["x"], np.repeat(sample["x"], 3, axis=0))
    each = of_each_example(graph, sample, estimate)
    mean = jax.tree.map(lambda leaf: leaf.mean(axis=0), eqx.filter(each, eqx.is_array))
    assert_trees_close(eqx.filter(estimate.grads, eqx.is_array), mean)
    variances = hnca.gradient_variance(graph, sample, estimate)
    for part in (*each.nodes, *each.objective):
        leaves = jax.tree.leaves(eqx.filter(part, eqx.is_array))
        flat = np.concatenate([leaf.reshape(6, -1) for leaf in leaves], axis=1)
        np.testing.assert_allclose(variances[part.name], flat.var(axis=0).mean(), rtol=1e-9)


def leave_one_out(graph, node, passes):
    """The credit of a node in each of K samples, as it is written in the paper's appendix."""
    signals, count = [downstream_value(graph, each, node.name) for each in passes], len(passes)
    gains = [(own - (sum(signals) - own) / (count - 1)) / count for own in signals]
    return [
        reinforced(node.layer, each.logits[node.name], each[node.name], gain)
        for each, gain in zip(passes, gains, strict=True)
    ]


def two_layers():
    first, second = jax.random.split(KEY)
    nodes = [
        hnca.Node("h1", hnca.Bernoulli(2, 2, key=first), ["x"]),
        hnca.Node("h2", hnca.Bernoulli(2, 2, key=second), ["h1"]),
    ]
    graph = hnca.Graph(nodes, [hnca.Function("f", lambda a, b: (a - 2 * b).sum(-1), ["h1", "h2"])])
    return graph, graph.sample(KEY, x=bits(6, 2))


def test_leave_one_out_sample_by_sample():
    """Three samples, drawn one after another with the same keys."""
    graph, sample = two_layers()
    estimate, _ = hnca.LeaveOneOut(3)(graph, sample, {}, key=KEY)
    for node, key in zip(graph.nodes, jax.random.split(KEY, 2), strict=True):
        passes = [sample]
        for each in jax.random.split(key, 2):
            own, below = jax.random.split(each)
            taken = node.layer.sample(sample.logits[node.name], own)
            passes.append(graph.resample(below, sample, node.name, taken))
        wanted = sum(leave_one_out(graph, node, passes))
        np.testing.assert_allclose(estimate.credit[node.name], wanted, rtol=1e-11, atol=1e-13)


def test_leave_one_out_of_independent_passes():
    graph, sample = two_layers()
    estimate, _ = hnca.LeaveOneOut(3, "independent")(graph, sample, {}, key=KEY)
    (one_batch,) = estimate.others
    apart = [jax.tree.map(lambda array, k=k: array[k::2], one_batch) for k in range(2)]
    others = [graph.sample(key, x=sample["x"]) for key in jax.random.split(KEY, 2)]
    assert_trees_close([each for each, _ in apart], others)
    for node in graph.nodes:
        got = [estimate.credit[node.name], *(credit[node.name] for _, credit in apart)]
        wanted = leave_one_out(graph, node, [sample, *others])
        np.testing.assert_allclose(got, wanted, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("coupling", ["resample", "independent"])
def test_more_samples_make_no_larger_program(coupling):
    graph, sample = two_layers()

    def size(samples):
        estimator = hnca.LeaveOneOut(samples, coupling)
        step = lambda key: eqx.filter(estimator(graph, sample, {}, key=key), eqx.is_array)
        return sum(1 for _ in equations(step, KEY))

    assert size(3) == size(16)


def test_grads_are_a_batch_mean():
    case = elbo(2)
    sample, estimator = drawn(case), hnca.HNCA()
    state = estimator.init(case.graph)
    together = estimator(case.graph, sample, state)[0].grads
    one = lambda sample, _: estimator(case.graph, sample, state)[0].grads
    apart = of_single_samples(one, sample, None)
    for mean, each in zip(jax.tree.leaves(together), jax.tree.leaves(apart), strict=True):
        np.testing.assert_allclose(mean, each.mean(axis=0), rtol=1e-12, atol=1e-14)


def test_credit_has_the_shape_of_logits():
    case = CASES["categorical-hidden"]()
    sample, estimator = drawn(case), hnca.HNCA()
    estimate, _ = estimator(
        case.graph, sample, estimator.init(case.graph), reward=case.world(sample)
    )
    shapes = {name: credit.shape for name, credit in estimate.credit.items()}
    assert shapes == {
        "c": (6, 2, 3),
        "d": (6, 1, 3),
        "h": (6, 2),
        "p:c": (6, 2, 3),
        "p:x": (6, 2),
    }
    assert estimate.value.shape == (6,)
    assert jax.tree.structure(estimate.grads) == jax.tree.structure(case.graph)


@pytest.mark.parametrize("method", [hnca.Reinforce, hnca.HNCA])
def test_moving_average_starts_at_zero_and_moves_after_use(method):
    case, estimator = bandit(2), method(hnca.MovingAverage(0.9))
    sample = drawn(case)
    reward = jnp.arange(6.0)
    state = estimator.init(case.graph)
    first, state = estimator(case.graph, sample, state, reward=reward)
    second, state = estimator(case.graph, sample, state, reward=reward)
    average = 0.1 * 2.5
    without = method()
    centred, _ = without(case.graph, sample, without.init(case.graph), reward=reward - average)
    plain, _ = without(case.graph, sample, without.init(case.graph), reward=reward)
    for name in ("h1", "h2", "action"):
        np.testing.assert_allclose(first.credit[name], plain.credit[name], rtol=1e-12)
        np.testing.assert_allclose(second.credit[name], centred.credit[name], rtol=1e-11)
    for leaf in jax.tree.leaves(state):
        np.testing.assert_allclose(leaf, 0.9 * average + 0.1 * 2.5, rtol=1e-12)
    assert len(jax.tree.leaves(state)) == 3


@pytest.mark.parametrize("bad", [jnp.nan, jnp.inf])
def test_moving_average_passes_over_what_is_not_finite(bad):
    case, average = bandit(1), hnca.MovingAverage(0.9)
    node = case.graph["h1"]
    view = hnca.View(case.graph, node, drawn(case))
    state = average.update(average.init(node), view, jnp.array([1.0, 3.0]))
    after = average.update(state, view, jnp.array([1.0, bad]))
    np.testing.assert_array_equal(after, state)
    np.testing.assert_allclose(average.update(after, view, jnp.array([4.0])), 0.9 * 0.2 + 0.4)


def test_routes_have_baselines_of_their_own_whatever_the_names():
    """Through `a` and `b` is not through `a, b`."""
    layer = lambda inputs: hnca.Bernoulli(inputs, 1, key=jax.random.key(inputs))
    children = ["a", "b", "a, b", '["a", "b"]']
    nodes = [hnca.Node("h", layer(2), ["x"]), *(hnca.Node(c, layer(1), ["h"]) for c in children)]
    rewards = {"both": ["a", "b"], "comma": ["a, b"], "quotes": ['["a", "b"]']}
    graph = hnca.Graph(nodes, [hnca.Reward(name, parents) for name, parents in rewards.items()])
    estimator = hnca.HNCA(hnca.MovingAverage(0.0))
    sample = graph.sample(KEY, x=jnp.ones((4, 2)))
    answers = {name: jnp.full(4, number) for number, name in enumerate(rewards, 1)}
    _, state = estimator(graph, sample, estimator.init(graph), reward=answers)
    assert sorted(state["h"].values()) == [1, 2, 3]
    assert state["h"]["through a, b"] == 1


def test_baseline_of_the_vae_tracks_mediated_components_only():
    """The sum of what comes through children (pink and orange in the paper's figure)."""
    case, estimator = elbo(2), hnca.HNCA(hnca.MovingAverage(0.0))
    sample = drawn(case)
    _, state = estimator(case.graph, sample, estimator.init(case.graph))
    values = case.graph.component_values(sample)
    mediated = jnp.mean(values["p:h1"] + values["p:h2"])
    np.testing.assert_allclose(state["h1"]["through h2"], mediated, rtol=1e-12)
    assert state["h2"] == {}
    unpruned = hnca.HNCA(hnca.MovingAverage(0.0), prune_children=False)
    _, state = unpruned(case.graph, sample, unpruned.init(case.graph))
    downstream = mediated + jnp.mean(values["p:x"] + values["H:h2"])
    np.testing.assert_allclose(state["h1"]["through h2"], downstream, rtol=1e-12)
    full = hnca.HNCA(hnca.MovingAverage(0.0), prune_children=False, downstream_only=False)
    _, state = full(case.graph, sample, full.init(case.graph))
    np.testing.assert_allclose(
        state["h1"]["through h2"], jnp.mean(case.graph.value(sample)), rtol=1e-12
    )


@pytest.mark.parametrize("optimizer", [optax.sgd(0.1), optax.adam(0.1), optax.adamw(0.1)])
def test_maximize_walks_uphill(optimizer):
    """Exact ascent on a graph with a non-array leaf (an MLP's activation)."""
    case = CASES["network-logits"]()
    graph, uphill = case.graph, hnca.maximize(optimizer)
    opt_state = uphill.init(graph)
    before, gradient = hnca.exact_gradient(graph, reward=case.world, **case.context)
    updates, _ = uphill.update(gradient, opt_state, graph)
    after, _ = hnca.exact_gradient(
        eqx.apply_updates(graph, updates), reward=case.world, **case.context
    )
    assert after > before


def test_maximize_leaves_weight_decay_alone():
    weights = jnp.ones(3)
    uphill = hnca.maximize(optax.adamw(0.1, weight_decay=0.5))
    updates, _ = uphill.update(jnp.zeros(3), uphill.init(weights), weights)
    np.testing.assert_allclose(updates, -0.05 * weights)
