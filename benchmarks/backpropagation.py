"""The yardstick: backpropagation through the same networks, as if their units were not random.

The straight-through surrogate of the same objective, with the same draws and the same optimiser,
in plain JAX: matrices as `x @ w` likes them, no modules; no faster way of writing it is known here.
But random numbers and softplus are the library's, so that only the cost of credit differs.
"""

import jax
import jax.numpy as jnp
import optax

import hnca
from hnca.draws import draw_bernoulli
from hnca.kernels.settled import settled
from hnca.kernels.softplus import softplus

Affine = tuple[jax.Array, jax.Array]  # weight [inputs, outputs], bias


def plain(layer: hnca.AbstractLayer) -> Affine:
    """The parameters of a linear layer."""
    return jnp.array(layer.logits.weight.T), jnp.array(layer.logits.bias)  # pyright: ignore


def vae_layers(graph: hnca.Graph) -> tuple[list, list]:
    """Of the encoder and the decoder, the prior last."""
    decoders = {part.of: part.layer for part in graph.objective if isinstance(part, hnca.LogProb)}
    of = [node.parents[0] for node in graph.nodes] + [graph.nodes[-1].name]
    return [node.layer for node in graph.nodes], [decoders[name] for name in of]


def vae_parameters(graph: hnca.Graph) -> tuple[list[Affine], list[Affine]]:
    """The parameters of the same, where all of them are linear."""
    encoder, decoder = vae_layers(graph)
    return [plain(layer) for layer in encoder], [plain(layer) for layer in decoder]


def conv_vae_parameters(graph: hnca.Graph) -> tuple[list, list]:
    """The same where all but the prior are convolutions."""
    encoder, (*decoder, prior) = vae_layers(graph)
    maps = lambda layers: [jax.tree.map(jnp.array, layer.logits) for layer in layers]
    return maps(encoder), [*maps(decoder), plain(prior)]


def bandit_parameters(graph: hnca.Graph) -> list[Affine]:
    """Of the layers, the actions last."""
    return [plain(node.layer) for node in graph.nodes]


def affine(layer: Affine, x: jax.Array) -> jax.Array:
    """The logits."""
    return x @ layer[0] + layer[1]


def straight_through(p: jax.Array, key) -> jax.Array:
    """A sampled 0 or 1 whose derivative is that of its mean."""
    fired = draw_bernoulli(key, p).astype(p.dtype)
    return p + jax.lax.stop_gradient(fired - p)


def log_likelihood(logits: jax.Array, fired: jax.Array) -> jax.Array:
    """Of Bernoulli units."""
    return jnp.sum(fired * logits - settled(softplus(logits)))


def vae_loss(parameters, x: jax.Array, key, apply=affine) -> jax.Array:
    """Minus the evidence lower bound, averaged over the batch. `apply` is a layer's map."""
    encoder, (*decoder, (_, prior)) = parameters
    below, total = x, jnp.zeros(())
    keys = jax.random.split(key, len(encoder))
    for up, down, k in zip(encoder, decoder, keys, strict=True):
        logits = apply(up, below)
        p = jax.nn.sigmoid(logits)
        units = straight_through(p, k)
        total += log_likelihood(apply(down, units), below)
        total += jnp.sum(settled(softplus(logits)) - logits * p)
        below = units
    total += jnp.vdot(jnp.sum(below, axis=0), prior) - len(x) * jnp.sum(softplus(prior))
    return -total / len(x)


def conv_vae_loss(parameters, x: jax.Array, key) -> jax.Array:
    """The same through convolutions: those of the library, which are matrix products of windows.
    Inside a compiled loop on a CPU, the gradients of XLA's own take many times as long."""
    return vae_loss(parameters, x, key, apply=lambda layer, x: layer.of_batch(x))


def bandit_loss(parameters, entry, key) -> jax.Array:
    """Minus the log-likelihood of the right action, averaged over the batch."""
    (x, y), (*hidden, action) = entry, parameters
    for layer, k in zip(hidden, jax.random.split(key, len(hidden)), strict=True):
        x = 2 * straight_through(jax.nn.sigmoid(affine(layer, x)), k) - 1
    log_p = jax.nn.log_softmax(affine(action, x))
    return -jnp.mean(jnp.take_along_axis(log_p, y[:, None], axis=1))


def make_epoch(loss, learning_rate: float):
    """The starting state of parameters, and a program of many steps like the lab's: a step for
    each entry, by Adam and backpropagation of `loss(parameters, entry, key)`."""
    optimizer = optax.adam(learning_rate)

    def step(state, entry):
        parameters, opt_state, key = state
        key, draw = jax.random.split(key)
        value, grads = jax.value_and_grad(loss)(parameters, entry, draw)
        updates, opt_state = optimizer.update(grads, opt_state)
        return (optax.apply_updates(parameters, updates), opt_state, key), value

    start = lambda parameters, key: (parameters, optimizer.init(parameters), jnp.copy(key))
    return start, jax.jit(
        lambda state, entries: jax.lax.scan(step, state, entries), donate_argnums=0
    )
