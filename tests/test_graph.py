"""The forward pass and the structure of a graph."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hnca
from enumeration import every_sample
from graphs import CASES, bandit, categorical_hidden, diamond, elbo, mixed_codings, two_heads

KEY = jax.random.key(0)


def test_shapes_and_codings():
    case = categorical_hidden()
    sample = case.graph.sample(KEY, **case.context)
    assert sample["c"].shape == (2, 2)
    assert sample["d"].shape == (2,)
    assert sample["h"].shape == (2, 2)
    assert jnp.issubdtype(sample["c"].dtype, jnp.integer)
    assert sample.log_prob.shape == (2,)
    case = mixed_codings()
    many = case.graph.sample(KEY, x=jnp.ones((100, 2)))
    assert set(np.unique(many["h1"])) == {0, 1}
    assert set(np.unique(many["h2"])) == {-1, 1}
    assert set(np.unique(many["h3"])) == {-2, 0.5}


@pytest.mark.parametrize("case", ["skip-connection", "categorical-hidden", "mixed-codings"])
def test_observing_a_sample_gives_the_same_record(case):
    case = CASES[case]()
    sample = case.graph.sample(KEY, **case.context)
    again = case.graph.observe(**sample.values)
    for left, right in zip(jax.tree.leaves(sample), jax.tree.leaves(again), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_probabilities_of_all_samples_sum_to_one(case):
    _, _, probability = every_sample(CASES[case]())
    np.testing.assert_allclose(probability.sum(), 1, rtol=1e-12)


@pytest.mark.parametrize("case", ["skip-connection", "categorical-hidden"])
def test_frequencies_of_samples(case):
    """Every joint outcome as often as its probability says: |z| < 5 for all of them."""
    graph, context = CASES[case]()
    one = {name: array[:1] for name, array in context.items()}
    everything = hnca.configurations(graph)
    count, draws = len(next(iter(everything.values()))), 200_000
    expected = graph.observe(
        **everything, **{name: jnp.repeat(array, count, 0) for name, array in one.items()}
    )
    drawn = graph.sample(KEY, **{name: jnp.repeat(array, draws, 0) for name, array in one.items()})

    def codes(sample):
        columns = [graph.expand(sample, name).reshape(sample.batch, -1) for name in everything]
        return np.concatenate(columns, axis=1) @ 2.0 ** np.arange(sum(c.shape[1] for c in columns))

    p = np.exp(expected.log_prob)
    seen = np.array([np.sum(codes(drawn) == code) for code in codes(expected)])
    assert seen.sum() == draws
    assert np.max(np.abs(seen - draws * p) / np.sqrt(draws * p * (1 - p))) < 5


def test_initial_weights_fill_glorots_range():
    """Uniform within sqrt(6 / (in + out)), and up to it."""
    affine = hnca.Affine(300, 200, key=KEY)
    limit = (6 / 500) ** 0.5
    largest = np.max(np.abs(affine.weight))
    assert 0.999 * limit < largest <= limit
    np.testing.assert_allclose(np.std(affine.weight), limit / 3**0.5, rtol=0.02)
    assert abs(np.mean(affine.weight)) < 5 * limit / 3**0.5 / 60_000**0.5
    assert np.all(affine.bias == 0)
    kernel = np.abs(hnca.Convolution(30, 50, 3, image=(3, 3), key=KEY).weight)
    assert 0.999 < np.max(kernel) / (6 / (9 * 80)) ** 0.5 <= 1


def test_all_that_descends_is_drawn_anew():
    """Layers that copy their parents: what is set above arrives below, and nowhere else."""
    copy = lambda: hnca.Bernoulli(1, 1, logits=hnca.Affine(1, 1, key=KEY))
    nodes = [("a", "x"), ("b", "a"), ("c", "b"), ("d", "c"), ("other", "x")]
    graph = hnca.Graph([hnca.Node(name, copy(), [parent]) for name, parent in nodes])
    graph = jax.tree.map(lambda leaf: jnp.full_like(leaf, 200 if leaf.ndim == 2 else -100), graph)
    sample = graph.sample(KEY, x=jnp.ones((3, 1)))
    again = graph.resample(KEY, sample, "a", jnp.zeros((3, 1)))
    for name in ("a", "b", "c", "d"):
        assert np.all(sample[name] == 1), name
        assert np.all(again[name] == 0), name
    assert np.all(again["other"] == 1)


def test_who_reaches_what():
    graph = diamond().graph
    parts = {part.name: part for part in graph.objective}
    assert graph.node_names.index("h") < graph.node_names.index("a")
    assert graph.node_names[-1] == "out"
    assert set(graph.children("h")) == {"a", "b"}
    assert graph.ancestors(parts["reward"]) == {"out", "a", "b", "h"}
    assert graph.ancestors(parts["left"]) == {"h", "a"}
    assert graph.ancestors(parts["H:b"]) == {"h"}
    assert graph.mediators("h", parts["left"]) == ("a",)
    assert set(graph.mediators("h", parts["reward"])) == {"a", "b"}
    assert graph.mediators("h", parts["H:b"]) == ()
    assert graph.context_names == ("x",)
    heads = two_heads().graph
    assert [part.name for part in heads.downstream("left")] == ["cost"]


def test_the_structure_is_found_once():
    """What a component reads is asked when the graph is made, and never again."""
    asked = []

    class Counted(hnca.Reward):
        def inputs(self, graph):
            asked.append(self.name)
            return super().inputs(graph)

    case = bandit(2)
    graph = hnca.Graph(case.graph.nodes, [Counted("reward", ["action"])])
    assert asked == ["reward"]
    sample, estimator = graph.sample(KEY, **case.context), hnca.HNCA(hnca.MovingAverage())
    estimator(graph, sample, estimator.init(graph), reward=jnp.ones(2))
    assert asked == ["reward"]


def test_graphs_of_one_structure_are_one_program():
    first, second = elbo(2).graph, elbo(2).graph
    assert first.structure is not second.structure
    assert first.structure == second.structure
    assert hash(first.structure) == hash(second.structure)
    assert jax.tree.structure(first) == jax.tree.structure(second)
    assert first.structure != elbo(1).graph.structure


def test_replaced_nodes_are_refused():
    """The structure would still be that of the old ones."""
    case = bandit(2)
    nodes = (*case.graph.nodes[:2], hnca.Node("action", case.graph["action"].layer, ["h1"]))
    replaced = eqx.tree_at(lambda graph: graph.nodes, case.graph, nodes)
    with pytest.raises(ValueError, match="were replaced in a graph: make a new Graph"):
        replaced.sample(KEY, **case.context)


def test_a_head_gets_no_credit_from_what_it_cannot_reach():
    case = two_heads()
    cost_only = hnca.Graph(case.graph.nodes, case.graph.objective[1:])
    sample = cost_only.sample(KEY, **case.context)
    for estimator in (hnca.Reinforce(), hnca.HNCA()):
        estimate, _ = estimator(cost_only, sample, estimator.init(cost_only))
        assert np.all(estimate.credit["right"] == 0)
        assert np.any(estimate.credit["left"] != 0)


def test_value_is_the_elbo():
    """Summed by hand, as in Eq. 7."""
    graph, context = elbo(1)
    sample = graph.sample(KEY, **context)
    x, h = sample["x"], sample["h1"]
    decoder, entropy, prior = graph.objective
    assert isinstance(decoder, hnca.LogProb)
    assert isinstance(prior, hnca.LogProb)
    assert isinstance(entropy, hnca.Entropy)

    def log_likelihood(y, logits):
        p = jax.nn.sigmoid(logits)
        return jnp.sum(jnp.log(jnp.where(y == 1, p, 1 - p)), axis=1)

    q = jax.nn.sigmoid(graph["h1"].layer(x))
    by_hand = (
        log_likelihood(x, decoder.layer(h))
        + log_likelihood(h, prior.layer(jnp.zeros((2, 0))))
        - jnp.sum(q * jnp.log(q) + (1 - q) * jnp.log(1 - q), axis=1)
    )
    np.testing.assert_allclose(graph.value(sample), by_hand, rtol=1e-12)


def test_images_and_bytes_are_welcome():
    """A context of any shape and type: flattened for linear layers."""
    graph, _ = elbo(1)
    pixels = jnp.array([[[1], [0], [1]]], dtype=jnp.uint8)
    flat = graph.sample(KEY, x=pixels.reshape(1, 3).astype(float))
    image = graph.sample(KEY, x=pixels)
    np.testing.assert_array_equal(image.logits["h1"], flat.logits["h1"])
    np.testing.assert_array_equal(graph.value(image), graph.value(flat))


def test_exact_gradient_of_one_unit():
    """E[f] = p f(1) + (1 - p) f(0), so dE/db = p (1 - p) (f(1) - f(0))."""
    layer = hnca.Bernoulli(0, 1, key=KEY)
    values = lambda b: jnp.where(b[..., 0] == 1, 3.0, -2.0)
    graph = hnca.Graph([hnca.Node("b", layer)], [hnca.Function("f", values, ["b"])])
    value, grads = hnca.exact_gradient(graph)
    np.testing.assert_allclose(value, 0.5, rtol=1e-15)
    np.testing.assert_allclose(grads.nodes[0].layer.logits.bias, [0.25 * 5], rtol=1e-15)


def test_exact_gradient_is_the_derivative_of_the_exact_value():
    """Against central differences, for a graph with reward and for one with an ELBO."""
    for case in (bandit(2), elbo(2)):
        exact = lambda graph, case=case: hnca.exact_gradient(
            graph, reward=case.world, **case.context
        )
        leaves, structure = jax.tree.flatten(case.graph)
        _, gradient = exact(case.graph)
        for place in range(0, len(leaves), 3):
            bumped = []
            for step in (1e-6, -1e-6):
                moved = list(leaves)
                moved[place] = leaves[place].at[(0,) * leaves[place].ndim].add(step)
                bumped.append(exact(jax.tree.unflatten(structure, moved))[0])
            slope = (bumped[0] - bumped[1]) / 2e-6
            expected = jax.tree.leaves(gradient)[place].ravel()[0]
            np.testing.assert_allclose(slope, expected, rtol=1e-6, atol=1e-9)
