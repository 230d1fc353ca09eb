"""The yardstick: backpropagation through the same networks, as if their units were not random.

The straight-through surrogate of the same objective, with the same sampling and optimiser, in
plain JAX: what anyone would write for a deterministic network.
"""

import equinox as eqx
import jax
import jax.numpy as jnp

import hnca


def straight_through(layer: hnca.AbstractLayer, logits: jax.Array, key) -> jax.Array:
    """A sampled value whose derivative is that of its mean."""
    p = jax.nn.sigmoid(logits)
    fired = jax.random.bernoulli(key, p).astype(p.dtype)
    assert isinstance(layer, hnca.Bernoulli)
    rest, active = layer.values
    return rest + (active - rest) * (p + jax.lax.stop_gradient(fired - p))


def log_likelihood(logits: jax.Array, fired: jax.Array) -> jax.Array:
    """Of Bernoulli units."""
    return jnp.sum(fired * logits - jax.nn.softplus(logits))


def vae_objective(graph: hnca.Graph, x: jax.Array, key) -> jax.Array:
    """The evidence lower bound, averaged over the batch."""
    decoders = {part.of: part.layer for part in graph.objective if isinstance(part, hnca.LogProb)}
    below, total = x, jnp.zeros(())
    for node, k in zip(graph.nodes, jax.random.split(key, len(graph.nodes)), strict=True):
        logits = node.layer(below)
        units = straight_through(node.layer, logits, k)
        decoder = decoders[node.parents[0]]
        total += log_likelihood(decoder(units), below)
        total += jnp.sum(jax.nn.softplus(logits) - logits * jax.nn.sigmoid(logits))
        below = units
    prior = decoders[graph.nodes[-1].name]
    total += log_likelihood(prior(jnp.zeros((len(x), 0))), below)
    return total / len(x)


def bandit_objective(graph: hnca.Graph, x: jax.Array, y: jax.Array, key) -> jax.Array:
    """The log-likelihood of the right action, averaged over the batch."""
    *hidden, action = graph.nodes
    for node, k in zip(hidden, jax.random.split(key, len(hidden)), strict=True):
        x = straight_through(node.layer, node.layer(x), k)
    log_p = jax.nn.log_softmax(action.layer(x)[:, 0])
    return jnp.mean(jnp.take_along_axis(log_p, y[:, None], axis=1))


def make_epoch(objective, optimizer):
    """Like the lab's `make_epoch`, by backpropagation of `objective(graph, *entry, key)`."""

    @eqx.filter_jit(donate="all-except-first")
    def epoch(inputs, state):
        def step(state, entry):
            graph, opt_state, key = state
            key, draw = jax.random.split(key)
            value, grads = eqx.filter_value_and_grad(objective)(graph, *entry, draw)
            updates, opt_state = optimizer.update(grads, opt_state, graph)
            return (eqx.apply_updates(graph, updates), opt_state, key), value

        return jax.lax.scan(step, state, inputs)

    return lambda state, inputs: epoch(inputs, state)
