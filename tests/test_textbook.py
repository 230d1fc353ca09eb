"""The paper's algorithms as it prints them, unit by unit, against the library's credit."""

import jax
import jax.numpy as jnp
import numpy as np

import hnca
from graphs import bandit, elbo
from hnca.counterfactual import Counterfactuals


def sigmoid(logit):
    return 1 / (1 + np.exp(-logit))


def weights_of(layer) -> tuple[np.ndarray, np.ndarray]:
    return np.asarray(layer.logits.weight), np.asarray(layer.logits.bias)


def bernoulli_messages(weight, bias, x, phi):
    """Algorithm 1, lines 10-13: P(phi) had each parent been 1, and had it been 0."""
    logit = weight @ x + bias
    logits_1, logits_0 = logit + weight * (1 - x), logit - weight * x
    p_1 = (1 - phi) * (1 - sigmoid(logits_1)) + phi * sigmoid(logits_1)
    p_0 = (1 - phi) * (1 - sigmoid(logits_0)) + phi * sigmoid(logits_0)
    return p_1, p_0


def softmax_messages(weights, biases, x, phi):
    """Algorithm "HNCA (Softmax output unit)", lines 6-11."""
    logits = weights @ x + biases
    logits_1 = np.stack([logits[i] + weights[i] * (1 - x) for i in range(len(biases))])
    logits_0 = np.stack([logits[i] - weights[i] * x for i in range(len(biases))])
    return (
        np.exp(logits_1[phi]) / np.exp(logits_1).sum(0),
        np.exp(logits_0[phi]) / np.exp(logits_0).sum(0),
    )


def linear_messages(weight, bias, x, activation):
    """Algorithm "f-HNCA for Linear Function Components"."""
    logit = weight @ x + bias
    return activation(logit + weight * (1 - x)), activation(logit - weight * x), activation(logit)


def bernoulli_credit(logit, q_1, q_0, direct=(0, 0), coupled=(0, 0), downstream=0):
    """Algorithm "f-HNCA for Bernoulli unit", lines 14-23; Algorithm 1 where only the reward
    comes from downstream."""
    p, q_1, q_0 = sigmoid(logit), np.prod(q_1), np.prod(q_0)
    mean = p * q_1 + (1 - p) * q_0
    (direct_1, direct_0), (coupled_1, coupled_0) = direct, coupled
    through = (q_1 * coupled_1 - q_0 * coupled_0) / mean + (q_1 - q_0) / mean * downstream
    return p * (1 - p) * (through + direct_1 - direct_0)


def drawn(case, batch=20):
    context = {k: jnp.tile(v, (batch // len(v), 1)) for k, v in case.context.items()}
    sample = case.graph.sample(jax.random.key(3), **context)
    return sample, {name: np.asarray(array) for name, array in sample.values.items()}


def test_bandit_algorithms():
    case = bandit(2, values=(0, 1))
    sample, values = drawn(case)
    rewards = np.linspace(-1, 2, sample.batch)
    estimator = hnca.HNCA()
    estimate, _ = estimator(case.graph, sample, estimator.init(case.graph), reward=rewards)
    (w1, b1), (w2, b2), (w3, b3) = (weights_of(node.layer) for node in case.graph.nodes)
    for n in range(sample.batch):
        x, h1, h2, action, reward = *(values[k][n] for k in ("x", "h1", "h2", "action")), rewards[n]
        output = softmax_messages(w3, b3, h2, action)
        for j in range(len(h2)):
            credit = bernoulli_credit(
                w2[j] @ h1 + b2[j], *(q[j] for q in output), downstream=reward
            )
            np.testing.assert_allclose(estimate.credit["h2"][n, j], credit, rtol=1e-10)
        hidden = [bernoulli_messages(w2[j], b2[j], h1, h2[j]) for j in range(len(h2))]
        for i in range(len(h1)):
            q_1, q_0 = [m[0][i] for m in hidden], [m[1][i] for m in hidden]
            credit = bernoulli_credit(w1[i] @ x + b1[i], q_1, q_0, downstream=reward)
            np.testing.assert_allclose(estimate.credit["h1"][n, i], credit, rtol=1e-10)
        logits = w3 @ h2 + b3
        p = np.exp(logits) / np.exp(logits).sum()
        credit = ((np.arange(len(p)) == action) - p) * reward
        np.testing.assert_allclose(estimate.credit["action"][n, 0], credit, rtol=1e-10)


def log_likelihood(value):
    return lambda logit: np.log(sigmoid(logit) if value else 1 - sigmoid(logit))


def entropy(logit):
    p = sigmoid(logit)
    return -p * np.log(p) - (1 - p) * np.log(1 - p)


def test_f_hnca_algorithms():
    """The two-layer VAE, whose components are single elements of the ELBO's vectors."""
    case = elbo(2)
    sample, values = drawn(case)
    estimator = hnca.HNCA()
    estimate, _ = estimator(case.graph, sample, estimator.init(case.graph))
    parts = {part.name: part for part in case.graph.objective}
    (w1, b1), (w2, b2) = (weights_of(node.layer) for node in case.graph.nodes)
    (wx, bx), (wh, bh), (_, bp) = (weights_of(parts[k].layer) for k in ("p:x", "p:h1", "p:h2"))
    for n in range(sample.batch):
        x, h1, h2 = (values[name][n] for name in ("x", "h1", "h2"))
        prior = sum(log_likelihood(h2[j])(bp[j]) for j in range(len(h2)))
        messages = [bernoulli_messages(w2[j], b2[j], h1, h2[j]) for j in range(len(h2))]
        decoder = [linear_messages(wx[o], bx[o], h1, log_likelihood(x[o])) for o in range(len(x))]
        entropies = [linear_messages(w2[j], b2[j], h1, entropy) for j in range(len(h2))]
        for i in range(len(h1)):
            others = [log_likelihood(h1[k])(wh[k] @ h2 + bh[k]) for k in range(len(h1)) if k != i]
            own = [log_likelihood(value)(wh[i] @ h2 + bh[i]) for value in (1, 0)]
            logit = w1[i] @ x + b1[i]
            credit = bernoulli_credit(
                logit,
                q_1=[m[0][i] for m in messages],
                q_0=[m[1][i] for m in messages],
                direct=[sum(m[side][i] for m in decoder + entropies) for side in (0, 1)],
                coupled=own,
                downstream=sum(others) + prior,
            )
            direct_dependence = -logit * sigmoid(logit) * sigmoid(-logit)  # of the entropy
            np.testing.assert_allclose(
                estimate.credit["h1"][n, i], credit + direct_dependence, rtol=1e-9
            )
        fire = linear_messages_of_decoder(wh, bh, h1, h2)
        for j in range(len(h2)):
            logit = w2[j] @ h1 + b2[j]
            own = [log_likelihood(value)(bp[j]) for value in (1, 0)]
            direct = [sum(m[side][j] for m in fire) + own[side] for side in (0, 1)]
            credit = bernoulli_credit(logit, [], [], direct=direct)
            credit += -logit * sigmoid(logit) * sigmoid(-logit)
            np.testing.assert_allclose(estimate.credit["h2"][n, j], credit, rtol=1e-9)
        np.testing.assert_allclose(estimate.credit["p:x"][n], x - sigmoid(wx @ h1 + bx), rtol=1e-9)
        np.testing.assert_allclose(
            estimate.credit["p:h1"][n], h1 - sigmoid(wh @ h2 + bh), rtol=1e-9
        )
        np.testing.assert_allclose(estimate.credit["p:h2"][n], h2 - sigmoid(bp), rtol=1e-9)


def linear_messages_of_decoder(weight, bias, h1, h2):
    return [linear_messages(weight[k], bias[k], h2, log_likelihood(h1[k])) for k in range(len(h1))]


def test_linear_component():
    key = jax.random.key(0)
    linear = hnca.Linear("f", 4, 3, jnp.tanh, parents=["h"], key=key)
    graph = hnca.Graph([hnca.Node("h", hnca.Bernoulli(2, 4, key=key), ["x"])], [linear])
    sample = graph.sample(key, x=jnp.ones((5, 2)))
    change = linear.change(Counterfactuals(graph, sample), "h")
    weight, bias = np.asarray(linear.map.weight), np.asarray(linear.map.bias)
    for n, h in enumerate(np.asarray(sample["h"])):
        f_1, f_0, f = (
            sum(parts)
            for parts in zip(
                *(linear_messages(weight[o], bias[o], h, np.tanh) for o in range(3)), strict=True
            )
        )
        np.testing.assert_allclose(change[1, n], f_1 - f, rtol=1e-10, atol=1e-14)
        np.testing.assert_allclose(change[0, n], f_0 - f, rtol=1e-10, atol=1e-14)
