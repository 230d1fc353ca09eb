"""Tied layers and time: one set of parameters, credit in every place, exact by enumeration."""

import runpy
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hnca
from enumeration import assert_trees_close, expectation, of_single_samples
from graphs import Case, bits, lively
from hnca import Bernoulli, Categorical, Entropy, Graph, LogProb, Node, Reward
from hnca.estimators import make_estimator
from hnca.models import generative
from test_docs import ROOT
from test_unbiased import ESTIMATORS, check_unbiased

KEY = jax.random.key(3)
STEPS, UNITS = 3, 2


def recurrent(inputs: int, *, tied: bool = True) -> Case:
    """Three steps of two tied units and a reward at each. With inputs, also a likelihood at every
    step, by a layer that is tied too, and entropies. Untied, the parameters have equal values."""
    k1, k2 = jax.random.split(KEY)
    cell = Bernoulli(UNITS + inputs, UNITS, values=(-1, 1), key=k1)
    readout = Bernoulli(UNITS, 1, key=k2)

    def step(t):
        parents, reward = [f"h@{t - 1}"], Reward(f"r@{t}", [f"h@{t}"])
        if not inputs:
            return [Node(f"h@{t}", cell, parents), reward]
        return [
            Node(f"h@{t}", cell, [f"x@{t}", *parents]),
            LogProb(f"y@{t}", readout, [f"h@{t}"]),
            reward,
            Entropy(f"h@{t}"),
        ]

    graph = lively(Graph(*hnca.unroll(step, STEPS)))
    context = {"h@-1": bits(2, UNITS, seed=4)}
    if inputs:
        context |= hnca.by_time(y=bits(2, STEPS)[..., None], x=bits(2, STEPS, seed=6)[..., None])
    return Case(graph if tied else untied(graph), context)


def copy(tree):
    return jax.tree.map(lambda leaf: jnp.array(leaf, copy=True), tree)


def untied(graph: Graph) -> Graph:
    """The same network with a copy of the layer in every place."""
    nodes = [Node(node.name, copy(node.layer), node.parents) for node in graph.nodes]
    of = lambda part: LogProb(part.of, copy(part.layer), part.given)
    return Graph(nodes, [of(p) if isinstance(p, LogProb) else p for p in graph.objective])


@pytest.mark.parametrize("inputs", [0, 1])
def test_exact_in_expectation(inputs):
    check_unbiased(recurrent(inputs), ESTIMATORS)


def test_gradients_add_up_over_places():
    """The exact gradient of the tied network is the sum of those of its untied copy."""
    tied, free = recurrent(1), recurrent(1, tied=False)
    value, together = hnca.exact_gradient(tied.graph, reward=tied.world, **tied.context)
    other, apart = hnca.exact_gradient(free.graph, reward=free.world, **free.context)
    assert_trees_close(value, other)
    add = lambda *leaves: sum(leaves)
    cell = jax.tree.map(add, *(node.layer for node in apart.nodes))
    assert_trees_close(together["h@0"].layer, cell)
    readout = [part.layer for part in apart.objective if isinstance(part, LogProb)]
    assert_trees_close(together.conditionals["p:y@0"].layer, jax.tree.map(add, *readout))


def estimate_of(case: Case, name: str, sample: hnca.Sample) -> tuple[hnca.Estimate, dict]:
    estimator, rewards = make_estimator(name), case.world(sample)
    state = jax.tree.map(lambda leaf: leaf + 0.7, estimator.init(case.graph))
    weights = {"r@1": 0.5, "p:y@2": jnp.array([0.0, 2.0])}
    if estimator.needs_objective:
        graph = Graph(case.graph.nodes, [p for p in case.graph.objective if not p.opaque])
        case, rewards, weights = Case(graph, case.context), None, {"p:y@2": weights["p:y@2"]}
    estimate, _ = estimator(case.graph, sample, state, reward=rewards, key=KEY, weights=weights)
    return estimate, hnca.gradient_variance(case.graph, sample, estimate)


@pytest.mark.parametrize("name", ["hnca+baseline", "local-expectation", "loo-independent"])
def test_credit_is_that_of_the_untied_network(name):
    """In every place, with weights. The gradient is the sum, also for the variance, which is that
    of the sum over all places and passes of an example."""
    tied, free = recurrent(1), recurrent(1, tied=False)
    sample = tied.graph.sample(KEY, **tied.context)
    (got, variance), (wanted, _) = (estimate_of(case, name, sample) for case in (tied, free))
    assert_trees_close(got.value, wanted.value)
    assert got.credit.keys() == wanted.credit.keys()
    assert_trees_close(got.credit, {name: wanted.credit[name] for name in got.credit}, rtol=1e-10)
    cell = jax.tree.map(lambda *leaves: sum(leaves), *(node.layer for node in wanted.grads.nodes))
    assert_trees_close(got.grads["h@0"].layer, cell, rtol=1e-10)
    assert list(variance) == ["h@0", "p:y@0"]
    pairs = [(sample, got.credit), *got.others]
    each = [
        jnp.einsum(
            "bo,bi->boi", c[f"h@{t}"], jnp.concatenate([features(s, t), jnp.ones((2, 1))], 1)
        )
        for s, c in pairs
        for t in range(STEPS)
    ]
    np.testing.assert_allclose(variance["h@0"], np.var(sum(each), axis=0).mean(), rtol=1e-9)


def features(sample, t):
    return jnp.concatenate([sample[f"x@{t}"], sample[f"h@{t - 1}"]], axis=1)


def test_one_set_of_leaves():
    case = recurrent(1)
    assert len(jax.tree.leaves(case.graph)) == 4
    assert hnca.parameter_counts(case.graph) == {"h@0": 8, "p:y@0": 3}
    moved = eqx.tree_at(lambda graph: graph["h@2"].layer.logits.bias, case.graph, jnp.full(2, 9.0))
    for node in moved.nodes:
        np.testing.assert_array_equal(node.layer.logits.bias, 9)
    again = Graph(case.graph.nodes, case.graph.objective)
    assert jax.tree.structure(again) == jax.tree.structure(case.graph)
    sample = case.graph.sample(KEY, **case.context)
    estimate, _ = estimate_of(case, "hnca", sample)
    assert jax.tree.structure(estimate.grads) == jax.tree.structure(case.graph)


def test_tied_places_share_one_kernel():
    """As many tables for eight steps as for four: what XLA compiles does not grow by them."""

    def tables(steps):
        cell = Bernoulli(UNITS, UNITS, key=KEY)
        make = lambda t: [Node(f"h@{t}", cell, [f"h@{t - 1}"]), Reward(f"r@{t}", [f"h@{t}"])]
        graph = Graph(*hnca.unroll(make, steps))
        sample = graph.sample(KEY, **{"h@-1": jnp.zeros((1, UNITS))})
        state, rewards = hnca.HNCA().init(graph), {f"r@{t}": jnp.ones(1) for t in range(steps)}
        run = lambda graph: hnca.HNCA()(graph, sample, state, reward=rewards)[0].credit
        return str(eqx.filter_make_jaxpr(run)(graph)[0]).count("platform_index")

    assert tables(4) == tables(8) > 0


def layer(inputs, units):
    return Bernoulli(inputs, units, key=KEY)


H = Node("h", layer(2, 2), ["x"])

BAD = {
    "'k' is to have the layer of 'nobody', but there is none; the layers are those of 'h'": (
        lambda: Graph([H, Node("k", "nobody", ["x"])])
    ),
    "'k' is to have the layer of 'r', but there is none": lambda: Graph(
        [H, Node("k", "r", ["x"])], [Reward("r", ["h"])]
    ),
    "'k' has the layer of 'h', which comes later": lambda: Graph([Node("k", "h", ["x"]), H]),
    "'h' has the layer of 'p:x', which comes later": lambda: Graph(
        [Node("h", "p:x", ["x"])], [LogProb("x", layer(2, 2), ["h"])]
    ),
    "cycle of names: 'a' -> 'b' -> 'a'": lambda: Graph([Node("a", "b"), Node("b", "a")]),
    "cycle of names: 'a' -> 'a'": lambda: Graph([Node("a", "a")]),
    r"node 'k' \(as 'h'\) takes 2 inputs, but its parents are 'h' of width 2": lambda: Graph(
        [H, Node("k", "h", ["h", "x"])]
    ),
    "LogProb 'h': its layer is 3 Bernoulli units": lambda: Graph(
        [H], [LogProb("x", layer(2, 3), ["h"]), LogProb("h", "p:x", ["y"])]
    ),
    "to tie layers, pass the name 'h' as the layer of 'k'": lambda: Graph(
        [H, Node("k", H.layer, ["h"])]
    ),
    "node 'k' has the layer of 'h': only its graph knows it": lambda: Node("k", "h").layer,
    "at least 1 step": lambda: hnca.unroll(lambda t: [], 0),
    "step 0 must be a list of nodes and components, not a Node": lambda: hnca.unroll(
        lambda t: H, 2
    ),
    "step 1 must be a list of nodes and components, not a NoneType": lambda: hnca.unroll(
        lambda t: None if t else [H], 2
    ),
    "step 0 must be a list of nodes and components, not one with a str": lambda: hnca.unroll(
        lambda t: ["h"], 2
    ),
    r"'x' must have shape \[batch, time, ...\], not \[3\]": lambda: hnca.by_time(x=jnp.ones(3)),
}


@pytest.mark.parametrize("message", BAD)
def test_refused(message):
    with pytest.raises(ValueError, match=message):
        BAD[message]()


def test_a_chain_of_names_and_a_layer_of_a_node_in_the_objective():
    """The third node names the second, which names the first; a prior is the first's, too."""
    tied = [H, Node("k", "h", ["h"]), Node("l", "k", ["k"])]
    graph = Graph(tied, [LogProb("l", "h", ["x"])])
    assert [node.owner for node in graph.nodes] == [None, "h", "h"]
    assert hnca.parameter_counts(graph) == {"h": 6}
    assert graph.objective[0].layer is graph["k"].layer is graph["h"].layer


def test_what_is_tied_in_a_decoder_is_tied_in_its_dreams():
    readout = layer(2, 1)
    parts = [LogProb("y", readout, ["h"]), LogProb("z", "p:y", ["h"]), LogProb("h", layer(0, 2))]
    dream = generative(Graph([H], parts))
    assert dream["z"].owner == "y"
    assert set(dream.sample(KEY).values) == {"h", "y", "z"}


def test_time_there_and_back():
    array = jnp.arange(24.0).reshape(2, 3, 4)
    steps = hnca.by_time(x=array)
    assert list(steps) == ["x@0", "x@1", "x@2"]
    np.testing.assert_array_equal(hnca.over_time(steps, "x"), array)
    with pytest.raises(KeyError, match="no 'z@0'"):
        hnca.over_time(steps, "z")


def test_unroll_leaves_names_and_other_layers_alone():
    """Layers that are made anew at each step stay apart; a tie by hand is kept."""

    def step(t):
        return [
            Node(f"c@{t}", Categorical(0, 3, key=jax.random.fold_in(KEY, t))),
            Node(f"h@{t}", "h@0" if t else layer(3, 2), [f"c@{t}"]),
        ]

    nodes, objective = hnca.unroll(step, 2)
    assert [node.owner for node in nodes] == [None, None, None, "h@0"]
    assert objective == []
    assert set(hnca.parameter_counts(Graph(nodes))) == {"c@0", "c@1", "h@0"}


def world_graph() -> Graph:
    """Two steps of a policy with memory in a world: what it sees at 1 depends on what it did."""
    k1, k2 = jax.random.split(KEY)
    memory, choice = Bernoulli(1 + UNITS, UNITS, key=k1), Categorical(UNITS, 2, key=k2)

    def step(t):
        return [
            Node(f"h@{t}", memory, [f"seen@{t}", f"h@{t - 1}"]),
            Node(f"do@{t}", choice, [f"h@{t}"]),
            Reward(f"r@{t}", [f"do@{s}" for s in range(t + 1)]),
        ]

    return lively(Graph(*hnca.unroll(step, 2)))


def test_credit_through_a_world_that_is_no_part_of_the_graph():
    """As in examples/corridor.py: `observe` after the episode, rewards that name all actions so
    far. Exact by enumeration of all episodes, though the context is the world's answer."""
    graph = world_graph()
    values = hnca.configurations(graph)
    first, second = values["do@0"], values["do@1"]
    count = len(first)
    seen = {"seen@0": jnp.ones((count, 1)), "seen@1": 2.0 * first[:, None] - 1}
    context = seen | {"h@-1": jnp.zeros((count, UNITS))}
    rewards = {"r@0": 0.3 * first, "r@1": jnp.where(first == second, 1.0, -0.5) + 0.2 * second}

    def expected(graph):
        sample = graph.observe(**values, **context)
        return jnp.vdot(jnp.exp(sample.log_prob), sum(rewards.values()))

    exact = eqx.filter_grad(expected)(graph)
    sample = graph.observe(**values, **context)
    probability = np.exp(sample.log_prob)
    np.testing.assert_allclose(probability.sum(), 1, rtol=1e-12)
    for estimator in (hnca.HNCA(hnca.MovingAverage()), hnca.Reinforce(hnca.MovingAverage())):
        state = jax.tree.map(lambda leaf: leaf + 0.7, estimator.init(graph))
        estimate = lambda s, r, e=estimator, state=state: e(graph, s, state, reward=r)[0].grads
        grads = of_single_samples(estimate, sample, rewards)
        assert_trees_close(expectation(grads, probability), exact)


@pytest.mark.slow  # a program for each method
@pytest.mark.parametrize("example", ["memory.py", "corridor.py"])
def test_examples(example, tmp_path, monkeypatch, capsys):
    """A few steps of each, and a figure."""
    path = ROOT / "examples" / example
    assert path.read_text().count("\n") < 100
    out, short = tmp_path / "figure.png", ["--lengths", "2"] if example == "memory.py" else []
    monkeypatch.setattr(sys, "argv", [str(path), "--steps", "2", "--out", str(out), *short])
    with jax.enable_x64(False), jax.numpy_rank_promotion("allow"):
        runpy.run_path(str(path), run_name="__main__")
    assert out.stat().st_size > 1000
    assert "hnca+baseline" in capsys.readouterr().out
