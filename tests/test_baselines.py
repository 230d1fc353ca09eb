"""Baselines that see the example: what of it, that no bias comes of it, and what they learn."""

from collections.abc import Iterator
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import hnca
from enumeration import assert_trees_close, every_sample, expectation, of_single_samples, variance
from graphs import CASES, Case, bandit, elbo
from hnca.baselines import as_baseline
from hnca.credit import added, direct_credit, gradients
from hnca.weights import weighted
from test_unbiased import SharedTables, frozen
from test_variance_theorems import single_components

KEY = jax.random.key(7)


def known(case: Case) -> Case:
    """The same with every `Reward` a known function of the same values, and one example."""

    def answer(part: hnca.Reward) -> hnca.Function:
        def value(*arrays):
            lead = sample_axes(case.graph, part.parents, arrays)
            flat = jnp.concatenate([each.reshape(*lead, -1) for each in arrays], axis=-1)
            return jnp.sin(1 + flat @ jnp.arange(1.0, flat.shape[-1] + 1))

        return hnca.Function(part.name, value, part.parents)

    parts = [answer(p) if isinstance(p, hnca.Reward) else p for p in case.graph.objective]
    context = {name: array[:1] for name, array in case.context.items()}
    return Case(hnca.Graph(case.graph.nodes, parts), context)


def sample_axes(graph, parents, arrays) -> tuple[int, ...]:
    """The axes in front of those of a value's units, and categories."""
    name, array = parents[0], arrays[0]
    categorical = name in graph.node_names and isinstance(graph[name].layer, hnca.Categorical)
    return array.shape[: -2 if categorical else -1]


def mixed(view: hnca.View, second: hnca.Sample) -> hnca.Sample:
    """What is known of the first sample, and the rest of the second."""
    return view.graph.observe(**(second.values | view._known.values))


def chance(view: hnca.View, second: hnca.Sample) -> jax.Array:
    """How likely that is to be drawn, shared out over the second samples with the same rest."""
    graph, drawn, ways = view.graph, mixed(view, second), 1
    log = jnp.zeros(1)
    for node in graph.nodes:
        if node.name in view._known.values:
            ways *= node.layer.choices**node.layer.units
        else:
            log += node.layer.log_prob(drawn.logits[node.name], drawn[node.name])
    return jnp.exp(log)[0] / ways


RESAMPLED = {
    "reinforce": hnca.Reinforce(hnca.Resampled()),
    "hnca": hnca.HNCA(hnca.Resampled()),
    "full-reward": hnca.HNCA(hnca.Resampled(), prune_children=False, downstream_only=False),
}


def of_pairs(graph: hnca.Graph, case: Case, direct: bool) -> Iterator[tuple]:
    """For each estimator and node, the gradient estimates from what was done and what was drawn
    anew, all pairs of samples; and how likely each pair is. With the `direct` dependence or not."""
    sample, _, probability = every_sample(case)
    count = sample.batch

    def estimate(first, second):
        views = {node.name: hnca.View(graph, node, first) for node in graph.nodes}
        chances = {name: chance(view, second) for name, view in views.items()}
        values, tables, found = graph.component_values(first), SharedTables(graph, first), {}
        with mock.patch.object(hnca.View, "draw", lambda view, key: mixed(view, second)):
            for name, estimator in RESAMPLED.items():
                state = estimator.init(graph)
                if isinstance(estimator, hnca.HNCA):
                    ((_, credit),), _ = estimator.assign_from(tables, values, state, KEY)
                else:
                    ((_, credit),), _ = estimator.assign(graph, first, values, state, KEY)
                if direct:
                    credit = added(credit, direct_credit(graph, first))
                found[name] = gradients(graph, [(first, credit)]).nodes
        return found, chances

    every = np.arange(count)
    pick = lambda places: jax.tree.map(lambda array: array[places], sample)
    first, second = pick(np.repeat(every, count)), pick(np.tile(every, count))
    found, chances = of_single_samples(estimate, first, second)
    for name, nodes in found.items():
        for node, estimates in zip(graph.node_names, nodes, strict=True):
            weight = np.repeat(probability, count) * chances[node]
            np.testing.assert_allclose(weight.sum(), 1, rtol=1e-12)
            yield name, node, estimates, weight


@pytest.mark.parametrize(
    ("case", "weight"),
    [
        ("skip-connection", 1.0),
        *(
            pytest.param(name, weight, marks=pytest.mark.slow)
            for name, weight in (
                ("skip-connection", 0.3),
                ("diamond", 1.0),
                ("categorical-hidden", 1.0),
                ("two-heads", 1.0),
            )
        ),
    ],
)
def test_every_pair_of_samples(case, weight):
    """The expectation over what was done and over the fresh draws is the exact gradient, whatever
    one of the components counts."""
    case = known(CASES[case]())
    weights = {case.graph.objective[0].name: weight}
    graph = weighted(case.graph, {name: jnp.full(1, each) for name, each in weights.items()})
    _, exact = hnca.exact_gradient(case.graph, weights=weights, **case.context)
    expected = dict(zip(case.graph.node_names, exact.nodes, strict=True))
    for name, node, estimates, probability in of_pairs(graph, case, direct=True):
        mean = expectation(estimates, probability)
        assert_trees_close(mean, expected[node], f"{name}, {node}")


@pytest.mark.slow
def test_variance_with_the_same_fresh_draws():
    """HNCA never has more than REINFORCE, component by component: it is the mean of REINFORCE given
    all but the unit, and fresh draws have no part in the unit."""
    reduced = False
    for name, single in single_components(known(CASES["skip-connection"]())).items():
        found = {}
        for method, node, estimates, probability in of_pairs(single.graph, single, direct=False):
            found[method, node] = jax.tree.leaves(variance(estimates, probability))
        for node in single.graph.node_names:
            for ours, theirs in zip(found["hnca", node], found["reinforce", node], strict=True):
                assert np.all(ours <= theirs * (1 + 1e-12) + 1e-15), (name, node)
                reduced |= bool(np.any(ours < 0.9 * theirs))
    assert reduced, "nowhere less variance: the theorems would hold for a copy of REINFORCE"


def test_a_view_has_nothing_of_the_node_or_its_descendants():
    case = CASES["diamond"]()
    sample = case.graph.sample(KEY, **case.context)
    seen = {node.name: hnca.View(case.graph, node, sample)._known for node in case.graph.nodes}
    assert {name: set(view.values) for name, view in seen.items()} == {
        "h": {"x"},
        "a": {"x", "h", "b"},
        "b": {"x", "h", "a"},
        "out": {"x", "h", "a", "b"},
    }
    assert set(seen["h"].logits) == {"h"}
    assert np.all(seen["h"].log_prob == 0)
    view = hnca.View(case.graph, case.graph["a"], sample)
    assert set(view.context) == {"x"}
    np.testing.assert_array_equal(view.parents, sample["h"])


def test_resampled_is_the_mean_over_fresh_draws():
    case = elbo(2)
    sample = case.graph.sample(KEY, **case.context)
    view = hnca.View(case.graph, case.graph["h1"], sample, KEY)
    parts = case.graph.downstream("h1")
    first, second = view.fresh(2)
    assert np.any(first["h2"] != second["h2"])
    expected = [sum(part.value(case.graph, each) for part in parts) for each in (first, second)]
    got = hnca.Resampled(2).value((), view, parts)
    np.testing.assert_allclose(got, (expected[0] + expected[1]) / 2, rtol=1e-12)


def test_what_is_refused():
    case, looped = bandit(1), hnca.HNCA(hnca.Resampled())
    sample = case.graph.sample(KEY, **case.context)
    with pytest.raises(ValueError, match="HNCA needs the objective as a function, but Reward 'rew"):
        looped(case.graph, sample, looped.init(case.graph), reward=jnp.ones(2), key=KEY)
    case = elbo(2)
    sample = case.graph.sample(KEY, **case.context)
    with pytest.raises(ValueError, match="baseline of 'h1' draws samples of its own: pass key="):
        looped(case.graph, sample, looped.init(case.graph))
    with pytest.raises(ValueError, match="Learned draws its first weights: pass key= to init"):
        hnca.HNCA(hnca.Learned()).init(case.graph)
    with pytest.raises(TypeError, match=r"MovingAverage\(\), not 'loo'; by name there are"):
        as_baseline("loo")
    for wrong in (
        lambda: hnca.Learned(0),
        lambda: hnca.Learned(decay=1),
        lambda: hnca.Resampled(0),
    ):
        with pytest.raises(ValueError, match=r"Learned: |Resampled: "):
            wrong()


def fitted(baseline: hnca.Learned, batches: int, offset: float):
    """The state after batches of a signal that follows the parents' values; and for each of them
    the variance of what is left of the signal, and of the whole."""
    case = bandit(1)
    node = case.graph["h1"]

    @jax.jit
    def step(state, key):
        x = jax.random.bernoulli(key, 0.5, (50, 3)).astype(float)
        view = hnca.View(case.graph, node, case.graph.sample(key, x=x))
        signal = offset + 30 * (x[:, 0] - 2 * x[:, 1] * x[:, 2])
        left = signal - baseline.value(state, view, ())
        return baseline.update(state, view, signal), (jnp.var(left), jnp.var(signal))

    keys = jax.random.split(KEY, batches)
    state, (left, whole) = jax.lax.scan(step, baseline.init(node, key=KEY), keys)
    return state, np.asarray(left), np.asarray(whole)


@pytest.mark.parametrize("offset", [0.0, -500.0])
def test_learned_predicts_the_signal_whatever_its_level(offset):
    _, left, whole = fitted(hnca.Learned(optimizer=optax.adam(1e-2)), 1500, offset)
    np.testing.assert_allclose(left[:2].mean() / whole[:2].mean(), 1, rtol=0.05)
    assert left[-50:].mean() < 0.1 * whole[-50:].mean()


def test_averages_are_of_as_many_batches_as_there_were():
    state, _, _ = fitted(hnca.Learned(decay=0.9), 7, 3.0)
    np.testing.assert_allclose(state.one, 1 - 0.9**7, rtol=1e-12)


def test_learned_passes_over_what_is_not_finite():
    """As if that example had been what was predicted."""
    baseline, case = hnca.Learned(), bandit(1)
    state, _, _ = fitted(baseline, 3, 1.0)
    view = hnca.View(case.graph, case.graph["h1"], case.graph.sample(KEY, **case.context))
    predicted = baseline.value(state, view, ())
    broken = baseline.update(state, view, predicted.at[0].set(jnp.nan).at[1].set(4.0))
    as_predicted = baseline.update(state, view, predicted.at[1].set(4.0))
    assert_trees_close(broken, as_predicted)


@pytest.mark.parametrize("signal", [1.0, jnp.nan, 1e30])
@pytest.mark.parametrize("x", [1.0, jnp.nan])
def test_learned_survives_what_is_not_finite(x, signal):
    """One broken batch must not stay in its averages for good."""
    baseline, case = hnca.Learned(normalise=True), bandit(1)
    state, _, _ = fitted(baseline, 3, 1.0)
    sample = case.graph.observe(x=jnp.full((2, 3), x), h1=jnp.ones((2, 2)), action=jnp.ones(2, int))
    view = hnca.View(case.graph, case.graph["h1"], sample)
    after = baseline.update(state, view, jnp.full(2, signal, jnp.float32))
    for leaf in jax.tree.leaves(after):
        assert np.all(np.isfinite(leaf))


def test_normalised_credit_is_divided_as_a_whole():
    """Direct dependence too: of an objective of several parts, none gains weight."""
    case = elbo(2)
    plain, divided = hnca.HNCA(hnca.Learned(3)), hnca.HNCA(hnca.Learned(3, normalise=True))
    assert (plain.unbiased, divided.unbiased) == (True, False)
    sample = case.graph.sample(KEY, **case.context)
    state = frozen(plain.init(case.graph, key=KEY))
    expected, _ = plain(case.graph, sample, state)
    got, _ = divided(case.graph, sample, state)
    (fit,) = state["h1"].values()
    sigma = float(jnp.sqrt(fit.residual / (1 - 0.99**5)))
    assert sigma > 1.5
    for name, credit in expected.credit.items():
        by = sigma if name == "h1" else 1.0  # h2 has no route with a baseline
        np.testing.assert_allclose(got.credit[name], credit / by, rtol=1e-10)
