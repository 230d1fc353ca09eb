"""VIMCO and importance-weighted EM: against all K-tuples of samples of tiny graphs."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hnca
from enumeration import assert_trees_close, every_sample
from graphs import Case, bits, keys, lively
from hnca import Bernoulli, Categorical, Entropy, Function, Graph, LogProb, Node
from hnca.credit import gradients
from hnca.lab.experiments.vae import VAE
from hnca.weights import scaled

KEY = jax.random.key(1)


def autoencoder() -> Case:
    """Every node is a proposal; one is categorical."""
    k = keys()
    graph = Graph(
        [
            Node("h", Bernoulli(2, 1, values=(-1, 1), key=next(k)), ["x"]),
            Node("c", Categorical(1, 3, key=next(k)), ["h"]),
        ],
        [
            LogProb("x", Bernoulli(4, 2, key=next(k)), ["h", "c"]),
            LogProb("h", Bernoulli(3, 1, values=(-1, 1), key=next(k)), ["c"]),
            LogProb("c", Categorical(0, 3, key=next(k))),
            Entropy("h"),
            Entropy("c"),
        ],
    )
    return Case(lively(graph), {"x": bits(1, 2)})


def conditional() -> Case:
    """p(y | x): the nodes belong to the model."""
    k = keys()
    graph = Graph(
        [
            Node("h1", Bernoulli(2, 2, key=next(k)), ["x"]),
            Node("h2", Bernoulli(2, 1, values=(-1, 1), key=next(k)), ["h1"]),
        ],
        [LogProb("y", Bernoulli(3, 2, key=next(k)), ["h2", "h1"])],
    )
    return Case(lively(graph), {"x": bits(1, 2), "y": bits(1, 2, seed=9)})


class Tuples:
    """Every K-tuple of samples of one example, as a batch of first ones and one of the others."""

    def __init__(self, case: Case, count: int):
        self.graph, self.count = case.graph, count
        self.all, _, probability = every_sample(case)
        n = self.all.batch
        self.places = np.stack(np.unravel_index(np.arange(n**count), (n,) * count), axis=1)
        self.probability = np.prod(probability[self.places], axis=1)
        take = lambda places: jax.tree.map(lambda array: array[places], self.all)
        self.first, self.others = take(self.places[:, 0]), take(self.places[:, 1:].ravel())

    def mean_gradient(self, estimator):
        """Of what the estimator assigns to each tuple."""
        share = jnp.asarray(self.probability * len(self.places))

        @eqx.filter_jit
        def mean(graph, first, others):
            assigned = estimator.credited(graph, first, others)
            return gradients(graph, [(each, scaled(credit, share)) for each, credit in assigned])

        return mean(self.graph, self.first, self.others)

    def replayed(self, graph):
        """Every sample, with the derivatives of its probability."""
        return graph.forward(self.all.values, lambda node, _: self.all[node.name])

    def bound(self, graph):
        """E[log 1/K sum_k w_k], the tuples' probabilities included."""
        sample = self.replayed(graph)
        logs = hnca.log_weights(graph, sample)[self.places]
        value = jax.nn.logsumexp(logs, axis=1) - jnp.log(self.count)
        return jnp.vdot(jnp.exp(jnp.sum(sample.log_prob[self.places], axis=1)), value)

    def expected_log_joint(self, graph):
        """E[sum_k w~_k (log p(x, h_k) + log q(h_k))], with weights and probabilities held."""
        sample = self.replayed(graph)
        held = jax.nn.softmax(hnca.log_weights(self.graph, self.all)[self.places], axis=1)
        parts = [part for part in graph.objective if isinstance(part, LogProb)]
        joint = sum(part.value(graph, sample) for part in parts) + sample.log_prob
        return jnp.vdot(self.probability[:, None] * held, joint[self.places])


def gradient(function, graph):
    return eqx.filter_jit(eqx.filter_grad(function))(graph)


@pytest.mark.parametrize("make", [autoencoder, conditional])
def test_vimco_is_unbiased_for_the_bound(make):
    tuples = Tuples(make(), 3)
    exact = gradient(tuples.bound, tuples.graph)
    assert_trees_close(tuples.mean_gradient(hnca.Vimco(3)), exact, rtol=1e-11)
    _, single = hnca.exact_gradient(tuples.graph, **make().context)
    with pytest.raises(AssertionError):  # it is another objective
        assert_trees_close(exact, single, rtol=0.01)


@pytest.mark.parametrize("make", [autoencoder, conditional])
def test_importance_em_weighs_the_log_joint(make):
    """Over all triples; and for the layers of the objective, that is the bound's gradient."""
    tuples = Tuples(make(), 3)
    mean = tuples.mean_gradient(hnca.ImportanceEM(3))
    assert_trees_close(mean, gradient(tuples.expected_log_joint, tuples.graph), rtol=1e-11)
    bound = gradient(tuples.bound, tuples.graph)
    assert_trees_close(mean.objective, bound.objective, rtol=1e-11)


def test_importance_em_comes_to_maximum_likelihood():
    """d log p(y | x), the more samples, the closer: the bias goes like 1/K."""
    case = conditional()
    every = Tuples(case, 1)

    def log_likelihood(graph):
        sample = every.replayed(graph)
        return jax.nn.logsumexp(graph.value(sample) + sample.log_prob)

    exact = jax.tree.leaves(gradient(log_likelihood, case.graph))

    def bias(count):
        mean = jax.tree.leaves(Tuples(case, count).mean_gradient(hnca.ImportanceEM(count)))
        return sum(float(jnp.sum(jnp.abs(m - e))) for m, e in zip(mean, exact, strict=True))

    assert bias(4) < 0.7 * bias(2)
    assert bias(2) > 0.01


@pytest.mark.slow
@pytest.mark.parametrize("estimator", [hnca.Vimco(3), hnca.ImportanceEM(3)])
def test_by_the_front_door(estimator):
    """The call is the assignment above, to samples that it draws; its value is the bound's."""
    case = autoencoder()
    x = jnp.tile(case.context["x"], (20_000, 1))
    sample = case.graph.sample(KEY, x=x)
    estimate, _ = estimator(case.graph, sample, {}, key=jax.random.key(2))
    ((others, _),) = estimate.others
    assert others.batch == 2 * sample.batch
    expected = eqx.filter_jit(
        lambda graph: gradients(graph, estimator.credited(graph, sample, others))
    )(case.graph)
    assert_trees_close(estimate.grads, expected)
    tuples = Tuples(case, 3)
    error = np.std(estimate.value) / 20_000**0.5
    assert abs(np.mean(estimate.value) - tuples.bound(case.graph)) < 5 * error
    plain, weighted = (
        estimator(case.graph, sample, {}, key=KEY, weights=weights)[0]
        for weights in (None, jnp.full(20_000, 2.0))
    )
    np.testing.assert_allclose(weighted.value, 2 * plain.value, rtol=1e-12)
    assert_trees_close(jax.tree.map(lambda leaf: 2 * leaf, plain.grads), weighted.grads)
    variances = hnca.gradient_variance(case.graph, sample, estimate)
    assert all(value > 0 for name, value in variances.items())
    assert "3-sample bound" in estimator.objective.words


def test_what_has_no_likelihood_is_refused():
    graph, context = autoencoder()
    sample, vimco = graph.sample(KEY, **context), hnca.Vimco()
    with pytest.raises(ValueError, match=r"Vimco is for a likelihood, .* as 'H:h' have"):
        vimco(graph, sample, {}, key=KEY, weights={"H:h": 0.5})
    other = Graph(graph.nodes, [*graph.objective, Function("f", lambda h: h[..., 0], ["h"])])
    with pytest.raises(ValueError, match="a bound needs an objective of LogProb and Entropy"):
        vimco(other, other.sample(KEY, **context), {}, key=KEY)
    blind = Graph(graph.nodes, graph.objective[1:])
    with pytest.raises(ValueError, match="it needs a LogProb of a context array"):
        vimco(blind, blind.sample(KEY, **context), {}, key=KEY)
    with pytest.raises(ValueError, match="ImportanceEM: needs at least 2 samples"):
        hnca.ImportanceEM(1)


def test_training_calls_it_what_it_is():
    assert VAE(estimator="vimco").measure == "bound"
    assert VAE(estimator="hnca").measure == "elbo"
