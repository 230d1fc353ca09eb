"""The paper's networks: plain graphs that a user could have written."""

from collections.abc import Sequence
from itertools import pairwise

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray

from .convolution import Convolution
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


class ConvFeatures(eqx.Module):
    """Two convolutions of 3 x 3, a ReLU after each."""

    first: Convolution
    second: Convolution

    def __init__(self, shape: tuple[int, int], channels: int, *, key: PRNGKeyArray):
        k1, k2 = jax.random.split(key)
        self.first = Convolution(1, channels, 3, image=shape, key=k1)
        height, width, _ = self.first.shape
        self.second = Convolution(channels, channels, 3, image=(height, width), key=k2)

    def __call__(self, pixels: Float[Array, " pixels"]) -> Float[Array, " features"]:
        return jax.nn.relu(self.second(jax.nn.relu(self.first(pixels))))


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

    width, encoders, decoders = inputs, [], []
    for level, size in enumerate(units):
        encoders.append(hidden(width, size, encoder_keys[level]))
        width = encoders[-1].width
        decoding = Bernoulli if level == 0 else hidden
        decoders.append(decoding(width, sizes[level], key=decoder_keys[level]))
    prior = hidden(0, sizes[-1], decoder_keys[-1])
    return _autoencoder(names, encoders, [*decoders, prior])


def conv_vae(
    shape: tuple[int, int], channels: Sequence[int], *, kernel: int = 4, key: PRNGKeyArray
) -> Graph:
    """The same with pictures of Bernoulli units: each layer has half the height and width of the
    one below, and so many channels. The encoder is convolutions of stride 2, the decoder
    transposed ones."""
    names, sizes = _chain(1, channels)
    if any(size % 2 ** len(channels) for size in shape):
        halved = f"{len(channels)} layers halve height and width as often"
        raise ValueError(f"{halved}: images of {shape[0]} x {shape[1]} do not divide")
    encoder, decoder = jax.random.split(key)
    encoder_keys, decoder_keys = (jax.random.split(k, len(sizes)) for k in (encoder, decoder))
    encoders, decoders = [], []
    for level, (below, above) in enumerate(pairwise(sizes)):
        fine, coarse = ((shape[0] >> up, shape[1] >> up) for up in (level, level + 1))
        settings = {"kernel": kernel, "stride": 2, "padding": "same"}
        encode = Convolution(below, above, image=fine, key=encoder_keys[level], **settings)
        decode = Convolution(
            above, below, image=coarse, transposed=True, key=decoder_keys[level], **settings
        )
        encoders.append(Bernoulli(encode.inputs, encode.outputs, logits=encode))
        decoders.append(Bernoulli(decode.inputs, decode.outputs, logits=decode))
    prior = Bernoulli(0, encoders[-1].units, key=decoder_keys[-1])
    return _autoencoder(names, encoders, [*decoders, prior])


def _autoencoder(
    names: Sequence[str], encoders: Sequence[AbstractLayer], decoders: Sequence[AbstractLayer]
) -> Graph:
    """A VAE of layers with these names, from the data up: of each the encoder, of each the decoder
    of what is below it, and the prior as the last decoder."""
    nodes, objective = [], []
    for (below, name), encode, decode in zip(pairwise(names), encoders, decoders[:-1], strict=True):
        nodes.append(Node(name, encode, parents=[below]))
        objective += [LogProb(below, decode, given=[name]), Entropy(name)]
    return Graph(nodes, [*objective, LogProb(names[-1], decoders[-1])])


def generative(vae: Graph) -> Graph:
    """The other direction of a VAE, as a graph without objective: every `LogProb` becomes a node,
    from the prior down to the data. `generative(vae).sample(key)["x"]` is a dream."""
    parts = [part for part in vae.objective if isinstance(part, LogProb)]
    node = {part.name: part.of for part in parts}  # of tied parts, the names of the nodes are tied

    def place(part: LogProb) -> AbstractLayer | str:
        return node.get(part.owner or "", part.layer)

    return Graph([Node(part.of, place(part), part.given) for part in parts])


def _chain(inputs: int, units: Sequence[int]) -> tuple[list[str], list[int]]:
    """The names and sizes of the layers, from the context up."""
    if not units:
        raise ValueError("units: name the size of at least one layer, as in [200]")
    return ["x", *(f"h{level}" for level in range(1, len(units) + 1))], [inputs, *units]
