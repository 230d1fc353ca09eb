"""Comparing methods on one network: what is measured is what it is called."""

import json
from importlib import import_module

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.text import Text

import hnca
from enumeration import assert_trees_close, every_sample
from graphs import Case, bandit, bits, keys, lively
from hnca.compare import BRUTE_FORCE, LATE, YARDSTICK, _directions, _projected
from hnca.comparison import Row
from hnca.contenders import Contender, Problem, estimation, gradient_vectors
from hnca.estimators import REGISTRY, make_estimator
from hnca.lab.cli import main
from hnca.lab.report.comparison import draw_comparison, frontier
from hnca.tally import Tally, chance, largest_z
from test_cli import stripes as stripes

KEY = jax.random.key(5)


def small() -> Case:
    """A VAE of three units that can be enumerated."""
    k = keys()
    graph = hnca.Graph(
        [
            hnca.Node("h1", hnca.Bernoulli(2, 2, key=next(k)), ["x"]),
            hnca.Node("h2", hnca.Bernoulli(2, 1, key=next(k)), ["h1"]),
        ],
        [hnca.LogProb("x", hnca.Bernoulli(3, 2, key=next(k)), ["h1", "h2"]), hnca.Entropy("h1")],
    )
    return Case(lively(graph), {"x": bits(1, 2)})


def test_tally():
    random = np.random.default_rng(0)
    parts = [random.normal(3, 2, (count, 4)) for count in (1, 5, 8)]
    tally = Tally()
    for part in parts:
        tally.add({"a": jnp.asarray(part)})
    whole = np.concatenate(parts)
    assert tally.count == 14
    np.testing.assert_allclose(tally.mean["a"], whole.mean(0), rtol=1e-12)
    np.testing.assert_allclose(tally.variance("a"), whole.var(0, ddof=1), rtol=1e-12)
    truth = Tally.exactly({"a": jnp.zeros(4)})
    scores = np.abs(whole.mean(0)) / (whole.std(0, ddof=1) / 14**0.5)
    np.testing.assert_allclose(largest_z(tally, truth), scores.max(), rtol=1e-12)


@pytest.fixture(scope="module")
def found() -> hnca.Comparison:
    case = small()
    methods = ["hnca", "reinforce", "straight-through", "loo"]
    with pytest.MonkeyPatch.context() as patch:  # 1600 samples of all methods, whatever the time
        patch.setattr(import_module("hnca.compare"), "LEAST_ROUNDS", 200)
        return hnca.compare(case.graph, methods, KEY, budget=0.01, **case.context)


def test_bias_is_exact_where_it_can_be(found):
    rows = {row.name: row for row in found.rows}
    assert found.reference == "exact, by enumeration"
    assert rows["hnca"].bias < 1e-12
    assert rows["reinforce"].bias < 1e-12
    assert rows["straight-through"].bias > 0.01
    assert rows["loo"].bias is None  # it draws samples of its own
    assert not rows["loo"].is_seen_biased
    assert rows["hnca"].z is None


def test_noise_is_the_variance_for_a_fixed_example(found):
    """Of REINFORCE, by enumeration."""
    case = small()
    sample, _, probability = every_sample(case)
    estimator = hnca.Reinforce()
    one = lambda sample: estimator(case.graph, sample, estimator.init(case.graph))[0].grads["h1"]
    alone = jax.tree.map(lambda leaf: leaf[:, None], sample)
    grads = jax.vmap(one)(alone).layer.logits
    flat = np.concatenate([np.reshape(g, (len(g), -1)) for g in (grads.weight, grads.bias)], axis=1)
    chance = np.ravel(probability)[:, None]
    exact = (chance * flat**2).sum(0) - (chance * flat).sum(0) ** 2
    (row,) = [row for row in found.rows if row.name == "reinforce"]
    assert 0.8 < row.noise["h1"] / exact.mean() < 1.25


def test_the_better_method_is_ranked_first(found):
    names = [row.name for row in found.rows]
    assert names[-1] == YARDSTICK
    rows = {row.name: row for row in found.rows}
    assert rows["hnca"].mean_noise < rows["reinforce"].mean_noise  # times differ by chance here
    efficiencies = [row.efficiency for row in found.rows if row.unbiased and row.efficiency]
    assert efficiencies == sorted(efficiencies, reverse=True)
    assert efficiencies[0] == 1
    assert found.advice.startswith("Take ")
    assert "reinforce's" in found.advice
    text = str(found)
    assert all(name in text for name in names)
    assert json.loads(found.to_json())["advice"] == found.advice
    (record,) = [record for record in found.records() if record["name"] == "hnca"]
    assert record["noise/h1"] > 0


def test_variance_is_that_of_gradient_variance():
    case, estimator = small(), make_estimator("reinforce")
    batch = {"x": bits(6, 2)}
    problem = Problem(case.graph, batch, None, False)
    state, each = estimator.init(case.graph), jax.random.split(KEY, 3)
    _, vectors, variance = jax.jit(estimation(problem, estimator))(case.graph, state, each)
    first, second = jax.random.split(each[0])
    sample = case.graph.sample(first, **batch)
    estimate, _ = estimator(case.graph, sample, state, key=second)
    wanted = hnca.gradient_variance(case.graph, sample, estimate)
    assert variance.keys() == wanted.keys() == vectors.keys()
    for name, value in wanted.items():
        np.testing.assert_allclose(variance[name], value, rtol=1e-10)
    weight = estimate.grads["h1"].layer.logits.weight
    np.testing.assert_allclose(vectors["h1"][0][: weight.size], weight.ravel(), rtol=1e-10)


def test_what_cannot_do_the_network_is_listed_with_its_reason():
    case = bandit(1)
    sizes = {"reward": case.world, "exact": False, "budget": 0.01}
    found = hnca.compare(case.graph, ["hnca", "loo"], KEY, **sizes, **case.context)
    assert [row.name for row in found.rows] == ["hnca", YARDSTICK]
    assert found.left_out["loo"].startswith("needs the objective as a function")
    assert "samples of hnca" in found.reference
    assert not found.rows[0].is_seen_biased
    with pytest.raises(ValueError, match="budget must be above 0"):
        hnca.compare(case.graph, ["hnca"], KEY, budget=0.0, **case.context)


def likelihood() -> Case:
    """A VAE of two units, for which a likelihood is defined."""
    k = keys()
    graph = hnca.Graph(
        [hnca.Node("h", hnca.Bernoulli(2, 2, key=next(k)), ["x"])],
        [
            hnca.LogProb("x", hnca.Bernoulli(2, 2, key=next(k)), ["h"]),
            hnca.LogProb("h", hnca.Bernoulli(0, 2, key=next(k))),
            hnca.Entropy("h"),
        ],
    )
    return Case(lively(graph), {"x": bits(3, 2)})


def test_a_method_learns_before_it_is_measured():
    """As it would from the samples that are measured, of which it needs the signal only."""
    case, name = small(), "reinforce+baseline"
    problem, estimator = Problem(case.graph, {"x": bits(6, 2)}, None, True), make_estimator(name)
    state, draws = estimator.init(case.graph), estimation(problem, estimator)
    contender = Contender(name, estimator, state, draws)
    contender.prepare(problem)
    contender.learn(problem, KEY)
    after, _, _ = jax.jit(draws)(case.graph, state, jax.random.split(KEY, contender.warm_up))
    assert contender.warm_up == 50
    assert contender.is_learning
    assert_trees_close(contender.state, after)
    assert jnp.all(contender.state["h1"] != 0)


def test_another_objective_is_not_called_bias(monkeypatch):
    """Nor is it the reference, or recommended, or ranked, however little noise it has."""
    case, methods = likelihood(), ["vimco", "reinforce"]
    assert make_estimator("vimco").unbiased  # for its own objective
    monkeypatch.setattr(import_module("hnca.compare"), "LEAST_ROUNDS", 20)
    found = hnca.compare(case.graph, methods, KEY, exact=False, budget=0.01, **case.context)
    reinforce, vimco, _ = found.rows
    assert (reinforce.name, vimco.name) == ("reinforce", "vimco")
    assert vimco.objective == "the 5-sample bound on the log-likelihood"
    assert (vimco.bias, vimco.z, vimco.chance, vimco.cosine) == (None, None, None, None)
    assert vimco.efficiency == 0 < vimco.mean_noise
    assert reinforce.objective is None
    assert reinforce.z is not None
    assert found.reference.endswith("samples of reinforce")
    assert found.advice == "Take reinforce: no other unbiased method was measured."
    (line,) = [line for line in str(found).splitlines() if line.startswith("vimco")]
    assert "another objective" in line
    assert "vimco" in found.to_json()
    with pytest.raises(ValueError, match="needs an unbiased method to compare with: add hnca"):
        hnca.compare(case.graph, ["vimco"], KEY, exact=False, budget=0.01, **case.context)


def test_chance(monkeypatch):
    """Of one coordinate, that of Student's distribution: with 4 vectors, 3 degrees of freedom."""
    values = jnp.array([[1.0], [2.0], [4.0], [3.0]])
    tally, truth = Tally(), Tally.exactly({"a": jnp.zeros(1)})
    tally.add({"a": values})
    assert chance(tally, truth) == 1  # too few of them
    monkeypatch.setattr("hnca.tally.ENOUGH", 4)
    t = 2.5 / (np.std(values, ddof=1) / 2)
    below = 0.5 + (t / 3**0.5 / (1 + t**2 / 3) + np.arctan(t / 3**0.5)) / np.pi
    np.testing.assert_allclose(chance(tally, truth), 2 * (1 - below), rtol=1e-9)
    twice = Tally()
    twice.add({"a": values, "b": values})
    both = Tally.exactly({"a": jnp.zeros(1), "b": jnp.zeros(1)})
    np.testing.assert_allclose(chance(twice, both), 4 * (1 - below), rtol=1e-9)


def seen_biased(name: str, samples: int, times: int) -> float:
    """How often bias of a method is seen, along some directions, with so few samples."""
    case, estimator = small(), make_estimator(name)
    batch = {"x": bits(6, 2)}
    problem = Problem(case.graph, batch, None, True)
    state, draws = estimator.init(case.graph), jax.jit(estimation(problem, estimator))
    _, vectors, _ = draws(case.graph, state, jax.random.split(KEY, samples * times))
    mean = gradient_vectors(case.graph, hnca.exact_gradient(case.graph, **batch)[1])
    directions = _directions(mean, KEY)
    truth = Tally.exactly({name: directions[name] @ vector for name, vector in mean.items()})
    along = _projected(vectors, directions)
    seen = 0
    for number in range(times):
        tally = Tally()
        tally.add({k: a[number * samples : (number + 1) * samples] for k, a in along.items()})
        row = Row(name, {}, {}, z=largest_z(tally, truth), chance=chance(tally, truth))
        seen += row.is_seen_biased
    return seen / times


def test_few_samples_show_no_bias_where_there_is_none():
    """Though a z-score above 5 is nothing special in 27 directions with few samples."""
    assert seen_biased("hnca", samples=8, times=100) == 0
    assert seen_biased("hnca", samples=16, times=100) == 0
    assert seen_biased("straight-through", samples=64, times=10) == 1


def test_what_there_is_no_time_for_is_listed():
    case = small()
    found = hnca.compare(case.graph, None, KEY, budget=0.01, **case.context)
    assert [row.name for row in found.rows] == ["hnca+baseline", "reinforce", YARDSTICK]
    assert found.left_out.keys() == set(REGISTRY) - {"hnca+baseline", "reinforce", BRUTE_FORCE}
    assert set(found.left_out.values()) == {LATE}
    assert "still learning, a larger budget lets them: hnca+baseline" in str(found).splitlines()
    assert "not measured: reinforce+baseline, loo, disarm, hnca," in str(found)


def test_names_in_the_figure_cover_nothing():
    """Two dozen methods, some in nearly the same place."""
    random = np.random.default_rng(0)
    rows = [
        Row(name, {}, {}, True, mean_noise=float(noise), milliseconds=float(time))
        for name, noise, time in zip(REGISTRY, *random.lognormal(0, 0.7, (2, 24)), strict=False)
    ]
    found = hnca.Comparison((*rows, Row(YARDSTICK, {}, {}, milliseconds=0.1)), {}, "")
    figure = draw_comparison(found, "many")
    texts = [text for text in figure.axes[0].texts if text.get_text()]
    assert [text.get_text() for text in texts] == sorted(
        (row.name for row in rows),
        key=lambda name: -next(row.mean_noise for row in rows if row.name == name),
    )
    boxes = [Text.get_window_extent(text) for text in texts]
    overlaps = sum(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    assert overlaps == 0


def test_frontier():
    row = lambda name, time, noise: Row(name, {}, {}, mean_noise=noise, milliseconds=time)
    rows = [row("a", 2.0, 3.0), row("b", 1.0, 5.0), row("c", 3.0, 4.0), row("d", 4.0, 1.0)]
    assert [each.name for each in frontier(rows)] == ["b", "a", "d"]


@pytest.mark.slow
def test_the_command_line(tmp_path, stripes, capsys):
    settings = ["--units", "3", "--dataset", str(stripes), "--batch-size", "8", "--budget", "0.01"]
    methods = ["--estimators", "hnca+baseline", "reinforce"]
    with pytest.raises(SystemExit) as leaving:
        main(["compare", "vae", *settings, *methods, "-o", str(tmp_path / "out")])
    assert not leaving.value.code
    said = capsys.readouterr().out
    assert "Take " in said
    assert {path.suffix for path in (tmp_path / "out").iterdir()} == {".png", ".csv", ".json"}
    for wrong, message in (
        (["nothing"], "'nothing' is none of"),
        (["vae", "--budget", "-1"], "--budget must be above 0"),
        (["vae", *settings, "--estimators", "hcna"], "unknown estimator 'hcna'"),
    ):
        with pytest.raises(SystemExit) as leaving:
            main(["compare", *wrong])
        assert leaving.value.code
        assert message in capsys.readouterr().err


def test_what_does_not_vary_is_not_seen_biased_by_rounding():
    """The last digit of a gradient that is the same in every sample is no bias."""
    same, rounded = Tally(), Tally()
    for _ in range(20):
        same.add({"k": jnp.array([[3.0, 1.0]])})
        rounded.add({"k": jnp.array([[3.000001, 1.0]])})
    assert largest_z(same, rounded) < 1
    other = Tally()
    for _ in range(20):
        other.add({"k": jnp.array([[3.1, 1.0]])})
    assert largest_z(same, other) > 100
