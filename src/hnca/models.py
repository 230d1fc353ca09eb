"""The paper's networks: plain graphs that a user could have written."""

import math
from collections.abc import Sequence
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from .graph import Graph, Node
from .objective import Entropy, LogProb, Reward
from .units import AbstractLayer, Affine, Bernoulli, Categorical, Readout


def bandit_policy(inputs: int, units: Sequence[int], actions: int, *, key: PRNGKeyArray) -> Graph:
    """Layers `h1`, `h2`, ... of Bernoulli units with values -1 and 1 over the context `x`, and a
    softmax choice of the `action`, which alone earns the `reward`."""
    keys = jax.random.split(key, len(units) + 1)
    names, sizes = _chain(inputs, units)
    nodes = [
        Node(name, Bernoulli(size, width, values=(-1, 1), key=k), parents=[parent])
        for parent, name, size, width, k in zip(names, names[1:], sizes, units, keys, strict=False)
    ]
    nodes.append(Node("action", Categorical(sizes[-1], actions, key=keys[-1]), [names[-1]]))
    return Graph(nodes, [Reward("reward", parents=["action"])])


class Convolution(eqx.Module):
    """A convolution of 3 x 3 without padding, channels last, as a matrix product of all windows:
    inside a compiled loop, XLA's own convolutions are several times slower on a CPU."""

    weight: Float[Array, "window outputs"]
    bias: Float[Array, " outputs"]

    def __init__(self, inputs: int, outputs: int, *, key: PRNGKeyArray):
        limit = math.sqrt(6 / (9 * (inputs + outputs)))  # Glorot and Bengio (2010), uniform
        self.weight = jax.random.uniform(key, (9 * inputs, outputs), minval=-limit, maxval=limit)
        self.bias = jnp.zeros(outputs)

    def __call__(self, image: Float[Array, "H W inputs"]) -> Float[Array, "h w outputs"]:
        height, width = image.shape[0] - 2, image.shape[1] - 2
        shifts = [image[i : i + height, j : j + width] for i in range(3) for j in range(3)]
        return jnp.concatenate(shifts, axis=-1) @ self.weight + self.bias[None, None]


class ConvFeatures(eqx.Module):
    """Two convolutions, a ReLU after each, flattened."""

    first: Convolution
    second: Convolution
    shape: tuple[int, int] = eqx.field(static=True)

    def __init__(self, shape: tuple[int, int], channels: int, *, key: PRNGKeyArray):
        k1, k2 = jax.random.split(key)
        self.first = Convolution(1, channels, key=k1)
        self.second = Convolution(channels, channels, key=k2)
        self.shape = shape

    def __call__(self, pixels: Float[Array, " pixels"]) -> Float[Array, " features"]:
        image = pixels.reshape(*self.shape, 1)
        return jax.nn.relu(self.second(jax.nn.relu(self.first(image)))).ravel()


def conv_policy(
    shape: tuple[int, int], units: int, actions: int, *, channels: int = 16, key: PRNGKeyArray
) -> Graph:
    """A conv net without chance over the context `x` (one image's pixels in a row), a layer `h1`
    of Bernoulli units with values -1 and 1, and a softmax choice of the `action`."""
    height, width = shape
    if min(shape) < 5:
        raise ValueError(f"two 3 x 3 convolutions need images of 5 x 5 or more, not {shape}")
    k1, k2, k3 = jax.random.split(key, 3)
    features = ConvFeatures(shape, channels, key=k1)
    affine = Affine(channels * (height - 4) * (width - 4), units, key=k2)
    logits = Readout(features, affine)
    hidden = Bernoulli(height * width, units, values=(-1, 1), logits=logits)
    nodes = [
        Node("h1", hidden, parents=["x"]),
        Node("action", Categorical(units, actions, key=k3), parents=["h1"]),
    ]
    return Graph(nodes, [Reward("reward", parents=["action"])])


def hierarchical_vae(
    inputs: int, units: Sequence[int], *, categories: int = 2, key: PRNGKeyArray
) -> Graph:
    """An encoder `h1`, `h2`, ... of Bernoulli units over the context `x`, a decoder that mirrors
    it, a prior of learned means, and the evidence lower bound as objective (Eq. 7). With more than
    two `categories`, hidden units are categorical."""
    encoder, decoder = jax.random.split(key)
    encoder_keys, decoder_keys = (jax.random.split(k, len(units) + 1) for k in (encoder, decoder))
    names, sizes = _chain(inputs, units)

    def hidden(below: int, size: int, key: PRNGKeyArray) -> AbstractLayer:
        if categories == 2:
            return Bernoulli(below, size, key=key)
        return Categorical(below, categories, units=size, key=key)

    width, nodes, objective = inputs, [], []
    for level, (below, name) in enumerate(pairwise(names)):
        encode = hidden(width, sizes[level + 1], encoder_keys[level])
        width = encode.width
        decoding = Bernoulli if level == 0 else hidden
        decode = decoding(width, sizes[level], key=decoder_keys[level])
        nodes.append(Node(name, encode, parents=[below]))
        objective += [LogProb(below, decode, given=[name]), Entropy(name)]
    objective.append(LogProb(names[-1], hidden(0, sizes[-1], decoder_keys[-1])))
    return Graph(nodes, objective)


def generative(vae: Graph) -> Graph:
    """The other direction of a VAE, as a graph without objective: every `LogProb` becomes a node,
    from the prior down to the data. `generative(vae).sample(key)["x"]` is a dream."""
    parts = [part for part in vae.objective if isinstance(part, LogProb)]
    node = {part.name: part.of for part in parts}  # of tied parts, the names of the nodes are tied
    place = lambda part: node.get(part.owner or "", part.layer)
    return Graph([Node(part.of, place(part), part.given) for part in parts])


def _chain(inputs: int, units: Sequence[int]) -> tuple[list[str], list[int]]:
    """The names and sizes of the layers, from the context up."""
    if not units:
        raise ValueError("units: name the size of at least one layer, as in [200]")
    return ["x", *(f"h{level}" for level in range(1, len(units) + 1))], [inputs, *units]
