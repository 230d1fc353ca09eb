"""The paper's networks: plain graphs that a user could have written."""

from collections.abc import Sequence
from itertools import pairwise

import jax
from jaxtyping import PRNGKeyArray

from .graph import Graph, Node
from .objective import Entropy, LogProb, Reward
from .units import Bernoulli, Categorical


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


def hierarchical_vae(inputs: int, units: Sequence[int], *, key: PRNGKeyArray) -> Graph:
    """An encoder `h1`, `h2`, ... of Bernoulli units over the context `x`, a decoder that mirrors
    it, a prior of learned means, and the evidence lower bound as objective (Eq. 7)."""
    encoder, decoder = jax.random.split(key)
    encoder_keys, decoder_keys = (jax.random.split(k, len(units) + 1) for k in (encoder, decoder))
    names, sizes = _chain(inputs, units)
    nodes, objective = [], []
    for level, (below, name) in enumerate(pairwise(names)):
        lower, upper = sizes[level : level + 2]
        encode = Bernoulli(lower, upper, key=encoder_keys[level])
        decode = Bernoulli(upper, lower, key=decoder_keys[level])
        nodes.append(Node(name, encode, parents=[below]))
        objective += [LogProb(below, decode, given=[name]), Entropy(name)]
    objective.append(LogProb(names[-1], Bernoulli(0, sizes[-1], key=decoder_keys[-1])))
    return Graph(nodes, objective)


def _chain(inputs: int, units: Sequence[int]) -> tuple[list[str], list[int]]:
    """The names and sizes of the layers, from the context up."""
    if not units:
        raise ValueError("units: name the size of at least one layer, as in [200]")
    return ["x", *(f"h{level}" for level in range(1, len(units) + 1))], [inputs, *units]
