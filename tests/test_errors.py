"""Everything that is refused is refused by name."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hnca
from graphs import bandit, elbo, no_context, opaque_everywhere
from hnca import Bernoulli, Categorical, Entropy, Function, Graph, Linear, LogProb, Node, Reward
from hnca.counterfactual import Counterfactuals

KEY = jax.random.key(0)


def layer(inputs, units):
    return Bernoulli(inputs, units, key=KEY)


def coded(*values):
    return Bernoulli(3, 2, values=values, key=KEY)


def lambda_with(array):
    return eqx.Partial(lambda array, h: h @ array[:, 0], array)


H = Node("h", layer(3, 2), ["x"])
MLP = eqx.nn.MLP(3, 5, 4, 1, key=KEY)

BAD_GRAPHS = {
    "the nodes form a cycle: .*'b'": lambda: Graph(
        [Node("a", layer(2, 2), ["b"]), Node("b", layer(2, 2), ["a"])]
    ),
    "cycle: 'x' -> 'x'": lambda: Graph([Node("x", layer(3, 3), ["x"])]),
    "duplicate name 'h'": lambda: Graph([H, H]),
    "duplicate name 'p:x'": lambda: Graph([H], [LogProb("x", layer(2, 3), ["h"])] * 2),
    "duplicate name 'h': .*components": lambda: Graph([H], [Reward("h", ["h"])]),
    "node 'k' takes 3 inputs, but its parents are 'h' of width 2": lambda: Graph(
        [H, Node("k", layer(3, 1), ["h"])]
    ),
    "node 'k' takes 2 inputs, but its parents are 'h' of width 2": lambda: Graph(
        [H, Node("k", layer(2, 1), ["h", "x"])]
    ),
    "node 'k' takes 2 inputs, but its parents are none": lambda: Graph([Node("k", layer(2, 1))]),
    "Entropy 'hh': no such node": lambda: Graph([H], [Entropy("hh")]),
    "Reward 'r': no node among 'action'; the nodes are 'h'": lambda: Graph(
        [H], [Reward("r", ["action"])]
    ),
    "LogProb 'h': its layer is 3 Bernoulli": lambda: Graph([H], [LogProb("h", layer(0, 3))]),
    r"LogProb 'h': .* of \(-1, 1\), but the node is .*\(0, 1\)": lambda: Graph(
        [H], [LogProb("h", Bernoulli(0, 2, values=(-1, 1), key=KEY))]
    ),
    "LogProb 'x' takes 3 inputs": lambda: Graph([H], [LogProb("x", layer(3, 3), ["h"])]),
    "LogProb 'h': the same name twice": lambda: LogProb("h", layer(2, 2), ["h"]),
    "Linear 'f' takes 4 inputs": lambda: Graph([H], [Linear("f", 4, 1, jnp.tanh, ["h"], KEY)]),
    "Function 'f' has no parents": lambda: Graph([H], [Function("f", jnp.sum, [])]),
    r"'h': its logits must map \[3\] to \[2\]": lambda: Graph(
        [Node("h", Bernoulli(3, 2, logits=MLP), ["x"])]
    ),
    "pass a list of names, as in \\['x'\\]": lambda: Node("h", layer(3, 2), "x"),
    "the same name twice": lambda: Node("h", layer(6, 2), ["x", "x"]),
    "pass key=": lambda: Bernoulli(3, 2),
    "two different numbers": lambda: Bernoulli(3, 2, values=(1, 1), key=KEY),
    r"finite and distinct in float32, not \(0, nan\)": lambda: coded(0, float("nan")),
    r"finite and distinct in float32, not \(0, inf\)": lambda: coded(0, float("inf")),
    r"finite and distinct in float32, not \(0, 1e\+39\)": lambda: coded(0, 1e39),
    "finite and distinct in float32, not .*100000001": lambda: coded(100000000, 100000001),
    "finite and distinct in float32, not .*100000009": lambda: coded(100000000, 100000009),
    "'h' and 'k' share parameters": lambda: Graph([H, Node("k", H.layer, ["z"])]),
    "'h' and 'p:h' share parameters": lambda: Graph([H], [LogProb("h", H.layer, ["x"])]),
    "'h' and 'f' share parameters": lambda: Graph(
        [H], [Function("f", lambda_with(H.layer.logits.weight), ["h"])]
    ),
    "Fixed: this map has arrays among its leaves": lambda: hnca.Fixed(MLP),
    "at least 2": lambda: Categorical(3, 1, key=KEY),
    "inputs=3, units=0": lambda: layer(3, 0),
    "decay must be in": lambda: hnca.MovingAverage(1.0),
}


@pytest.mark.parametrize("message", BAD_GRAPHS)
def test_bad_graph(message):
    with pytest.raises((ValueError, TypeError), match=message):
        BAD_GRAPHS[message]()


GRAPH = bandit(1).graph
ELBO = elbo(1).graph
TWO = opaque_everywhere()
X = jnp.ones((4, 3))
LABELS = Graph(
    [Node("h", layer(3, 2), ["x"])],
    [LogProb("y", Categorical(2, 3, key=KEY), ["h"]), LogProb("x", layer(2, 3), ["h"])],
)


def label(value):
    return LABELS.sample(KEY, x=X, y=jnp.array([0, 1, 2, value]))


BAD_CALLS = {
    "missing array 'x': this graph needs 'x'": lambda: GRAPH.sample(KEY),
    "unexpected array 'y'": lambda: GRAPH.sample(KEY, x=X, y=X),
    "unexpected array 'xs': did you mean 'x'": lambda: GRAPH.sample(KEY, xs=X),
    "unexpected array 'h1': that is a node": lambda: GRAPH.sample(KEY, x=X, h1=X),
    "node 'h1' takes 3 inputs, but its parents are 'x' of width 2": lambda: GRAPH.sample(
        KEY, x=X[:, :2]
    ),
    "'x' must have shape": lambda: GRAPH.sample(KEY, x=1.0),
    "'x' must have shape .* not \\[0, 3\\]": lambda: GRAPH.sample(KEY, x=X[:0]),
    "missing array 'action'": lambda: GRAPH.observe(x=X, h1=X[:, :2]),
    "same batch size, but 'x' has 4, 'h1' has 3": lambda: GRAPH.observe(
        x=X, h1=X[:3, :2], action=jnp.zeros(4)
    ),
    r"'h1': values must have shape \[batch, 2\]": lambda: GRAPH.observe(
        x=X, h1=X, action=jnp.zeros(4)
    ),
    r"'action': values must have shape \[batch\], not \[4, 1\]": lambda: GRAPH.observe(
        x=X, h1=X[:, :2], action=jnp.zeros((4, 1))
    ),
    r"'h1': a unit takes one of \[-1, 1\], not 0": lambda: GRAPH.observe(
        x=X, h1=0 * X[:, :2], action=jnp.zeros(4)
    ),
    r"'action': a unit takes one of \[0, 1, 2\], not 3": lambda: GRAPH.observe(
        x=X, h1=X[:, :2], action=jnp.full(4, 3)
    ),
    "LogProb 'x': its layer has 3 units, but the array has 4": lambda: Graph(
        [Node("h", layer(2, 2), ["z"])], [LogProb("x", layer(2, 3), ["h"])]
    ).sample(KEY, z=X[:, :2], x=jnp.ones((4, 4))),
    r"'y': a unit takes one of \[0, 1, 2\], not -1": lambda: label(-1),
    r"'y': a unit takes one of \[0, 1, 2\], not 3": lambda: label(3),
    r"'y': a unit takes one of \[0, 1, 2\], not 1.9": lambda: label(1.9),
    r"'y': a unit takes .* not -2": lambda: LABELS.observe(
        x=X, y=jnp.full(4, -2), h=jnp.zeros((4, 2))
    ),
    "'x': a target lies between 0 and 1, not 255": lambda: LABELS.sample(
        KEY, x=jnp.uint8(255) * X.astype(jnp.uint8), y=jnp.zeros(4)
    ),
    "'x': a target lies between 0 and 1, not nan": lambda: LABELS.sample(
        KEY, x=jnp.nan * X, y=jnp.zeros(4)
    ),
    r"parents are 'x' of width 1; 'x' has shape \[3\]: is its batch axis missing": lambda: (
        GRAPH.sample(KEY, x=X[0])
    ),
    "batch size": lambda: TWO.graph.sample(KEY, x=X[:, :2], z=X[:2, :1]),
}


@pytest.mark.parametrize("message", BAD_CALLS)
def test_bad_arrays(message):
    with pytest.raises(ValueError, match=message):
        BAD_CALLS[message]()


@pytest.mark.parametrize("estimator", [hnca.Reinforce(), hnca.HNCA()])
@pytest.mark.parametrize(
    ("graph", "reward", "message"),
    [
        (GRAPH, None, "missing reward 'reward'"),
        (GRAPH, jnp.ones(3), r"reward 'reward' must have shape \[4\]"),
        (GRAPH, jnp.ones((4, 1)), r"not \[4, 1\]"),
        (GRAPH, 1.0, r"not \[\]"),
        (GRAPH, {"reward": jnp.ones(4), "other": jnp.ones(4)}, "unexpected reward 'other'"),
        (ELBO, jnp.ones(4), "unexpected reward: the objective has no Reward"),
    ],
)
def test_bad_reward(estimator, graph, reward, message):
    sample = graph.sample(KEY, x=X)
    with pytest.raises(ValueError, match=message):
        estimator(graph, sample, estimator.init(graph), reward=reward)


def test_several_rewards_go_by_name():
    sample = TWO.graph.sample(KEY, **TWO.context)
    with pytest.raises(ValueError, match=r"pass rewards by name, .* with 'late', 'early'"):
        TWO.graph.value(sample, jnp.ones(2))
    with pytest.raises(ValueError, match="missing reward 'early'"):
        TWO.graph.value(sample, {"late": jnp.ones(2)})


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"H:h2": 1.0}, "unexpected weight 'H:h2': the components are 'p:x', 'H:h1', 'p:h1'"),
        ({"H:h1": jnp.ones(3)}, r"weight 'H:h1' must be a number or have shape \[4\]"),
        (jnp.ones((4, 1)), r"weights must be a number or have shape \[4\], .* not \[4, 1\]"),
    ],
)
def test_bad_weights(weights, message):
    sample, estimator = ELBO.sample(KEY, x=X), hnca.Reinforce()
    with pytest.raises(ValueError, match=message):
        ELBO.value(sample, weights=weights)
    with pytest.raises(ValueError, match=message):
        estimator(ELBO, sample, estimator.init(ELBO), weights=weights)
    with pytest.raises(ValueError, match=message):
        hnca.exact_gradient(ELBO, x=X, weights=weights)


def test_state_of_another_estimator():
    sample = GRAPH.sample(KEY, x=X)
    state = hnca.Reinforce(hnca.MovingAverage()).init(GRAPH)
    with pytest.raises(ValueError, match=r"HNCA: this state is not from its own init\(graph\)"):
        hnca.HNCA(hnca.MovingAverage())(GRAPH, sample, state, reward=jnp.ones(4))


def test_misspelt_parent():
    graph = Graph([Node("h1", layer(3, 2), ["x"]), Node("h2", layer(2, 2), ["h11"])])
    with pytest.raises(ValueError, match=r"missing array 'h11': .* did you mean node 'h1'"):
        graph.sample(KEY, x=X)
    with pytest.raises(KeyError, match="no node 'h3'; the nodes are 'h1', 'h2'"):
        graph["h3"]


def test_function_that_mixes_examples():
    graph = Graph([H], [Function("f", lambda h: h.sum(), ["h"])])
    with pytest.raises(ValueError, match=r"Function 'f' must return shape \[4\]"):
        graph.value(graph.sample(KEY, x=X))


def test_too_many_configurations():
    graph = Graph([Node("h", layer(3, 19), ["x"])], [LogProb("h", layer(0, 19))])
    with pytest.raises(ValueError, match="524,288; the limit is 262,144"):
        hnca.exact_gradient(graph, x=X)
    graph = Graph([Node("h", layer(3, 300), ["x"])])
    with pytest.raises(ValueError, match="about 1e90"):
        hnca.configurations(graph)


def test_context_free_graph_refuses_context():
    with pytest.raises(ValueError, match="unexpected array 'x': this graph needs none"):
        no_context().graph.sample(KEY, x=X)


def test_an_impossible_label_under_jit_is_nan():
    """Nobody can refuse it there. It must not pass for another label."""

    @eqx.filter_jit
    def run(y):
        sample, estimator = LABELS.sample(KEY, x=X, y=y), hnca.HNCA()
        estimate, _ = estimator(LABELS, sample, estimator.init(LABELS))
        return estimate.value, estimate.credit

    possible, good = run(jnp.array([0.0, 1, 2, 1]))
    for wrong in (-1, 3, 1.9, jnp.nan):
        value, credit = run(jnp.array([0, 1, 2, wrong]))
        assert np.all(np.isfinite(possible))
        assert np.isnan(value[3])
        np.testing.assert_array_equal(value[:3], possible[:3])
        for name in ("h", "p:y"):
            assert np.all(np.isnan(credit[name][3])), name
            np.testing.assert_array_equal(credit[name][:3], good[name][:3])


@pytest.mark.parametrize("fixed", [False, True])
def test_a_map_without_parameters_is_announced(fixed):
    """It closes over weights that nobody trains."""
    weight = jnp.ones((2, 3))
    mark = hnca.Fixed if fixed else lambda function: function
    logits = mark(lambda x: weight @ x)
    readout = hnca.Readout(mark(lambda x: weight @ x), hnca.Affine(2, 2, key=KEY))
    makers = {
        "node 'h': its logits have no parameters": lambda: Graph(
            [Node("h", Bernoulli(3, 2, logits=logits), ["x"])]
        ),
        "'p:z': its logits have no parameters": lambda: Graph(
            [H], [LogProb("z", Bernoulli(3, 2, logits=logits), ["y"])]
        ),
        "node 'h': its features have no parameters": lambda: Graph(
            [Node("h", Bernoulli(3, 2, logits=readout), ["x"])]
        ),
    }
    for message, make in makers.items():
        if fixed:
            make()  # warnings are errors here
        else:
            with pytest.warns(UserWarning, match=message):
                make()


class Tempered(Bernoulli):
    """A user's units, with another policy."""

    def log_prob(self, logits, values):
        return super().log_prob(logits / 3, values)


def test_a_subclass_does_not_get_the_stock_kernel():
    child = Tempered(2, 2, key=KEY)
    graph = Graph([H, Node("k", child, ["h"])], [Function("f", lambda k: k.sum(-1), ["k"])])
    sample = graph.sample(KEY, x=X)
    fast, slow = (Counterfactuals(graph, sample, brute) for brute in (False, True))
    np.testing.assert_allclose(fast.message("k", "h"), slow.message("k", "h"), atol=1e-12)
    with pytest.raises(ValueError, match="DisARM is for Bernoulli units; node 'k' has others"):
        hnca.DisARM()(graph, sample, {}, key=KEY)


class Masked(hnca.Affine):
    """A map that does not look at its first input."""

    def __call__(self, x):
        return super().__call__(x.at[0].set(0))


def test_a_subclass_of_a_map_does_not_get_the_stock_table():
    child = Bernoulli(2, 2, logits=Masked(2, 2, key=KEY))
    graph = Graph([H, Node("k", child, ["h"])], [Function("f", lambda k: k.sum(-1), ["k"])])
    sample = graph.sample(KEY, x=X)
    fast, slow = (Counterfactuals(graph, sample, brute) for brute in (False, True))
    np.testing.assert_allclose(fast.message("k", "h"), slow.message("k", "h"), atol=1e-12)
    np.testing.assert_array_equal(slow.message("k", "h")[..., 0], 0)
    estimator = hnca.Reinforce()
    state = estimator.init(graph)
    estimate, _ = estimator(graph, sample, state)
    grads = []
    for i in range(len(X)):
        one = graph.observe(**{name: array[i : i + 1] for name, array in sample.values.items()})
        of_one = estimator(graph, one, state)[0].grads["k"].layer
        grads.append(np.concatenate([leaf.ravel() for leaf in jax.tree.leaves(of_one)]))
    expected = np.var(grads, axis=0).mean()
    found = hnca.gradient_variance(graph, sample, estimate)["k"]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
