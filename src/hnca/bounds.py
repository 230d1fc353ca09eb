"""Lower bounds on log p(x) from several samples (Burda et al., 2015)."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from .graph import Graph, Sample
from .objective import Entropy, LogProb


def log_weights(graph: Graph, sample: Sample) -> Float[Array, " B"]:
    """log p(x, h) - log q(h | x), for a graph whose objective is an evidence lower bound. A node
    with neither `LogProb` nor `Entropy` belongs to the model, p(h | parents) = q(h | parents), and
    drops out.

    >>> hnca.log_weights(graph, sample).shape
    (5,)
    """
    if not all(isinstance(part, LogProb | Entropy) for part in graph.objective):
        raise ValueError("a bound needs an objective of LogProb and Entropy components only")
    joint = [part for part in graph.objective if isinstance(part, LogProb)]
    scored = {part.of for part in joint}
    entropies = [part for part in graph.objective if isinstance(part, Entropy)]
    if missing := {part.of for part in entropies}.difference(scored):
        which = f"of every node with an Entropy, but '{min(missing)}' has none"
        raise ValueError(f"a bound needs a LogProb {which}")
    none = jnp.zeros(sample.batch)
    log_joint = sum((part.value(graph, sample) for part in joint), none)
    proposals = [node for node in graph.nodes if node.name in scored]
    log_probs = [
        node.layer.log_prob(sample.logits[node.name], sample[node.name]) for node in proposals
    ]
    return log_joint - sum(log_probs, none)


@eqx.filter_jit
def multi_sample_bound(
    graph: Graph, key: PRNGKeyArray, samples: int, /, **context: ArrayLike
) -> Float[Array, " B"]:
    """log of the mean of so many weights p(x, h) / q(h | x), h drawn from q: for every example, a
    lower bound on log p(x) in expectation, and the closer, the more samples.

    One sample is in memory at a time, and the weights only as the logarithm of their sum.

    >>> hnca.multi_sample_bound(graph, key, 100, x=x).shape
    (5,)
    """

    def add(number, total):
        sample = graph.sample(jax.random.fold_in(key, number), **context)
        return jnp.logaddexp(total, log_weights(graph, sample))

    batch = len(next(iter(context.values())))  # pyright: ignore[reportArgumentType]
    total = jax.lax.fori_loop(0, samples, add, jnp.full(batch, -jnp.inf))
    return total - jnp.log(samples)
