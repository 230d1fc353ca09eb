"""What a method's estimates are gradients of. For nearly all, that is the expected sum of the
components of the graph; some climb another objective, and say so here, in one place."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..bounds import log_weights
from ..credit import Credit, direct_credit
from ..graph import Graph, Sample


class AbstractObjective(eqx.Module):
    """Something to climb: the expectation of `value`, over all the samples that it is of."""

    @property
    @abstractmethod
    def words(self) -> str:
        """What it is, for people."""

    @abstractmethod
    def value(
        self,
        graph: Graph,
        values: Mapping[str, Float[Array, " B"]],
        sample: Sample,
        others: Sequence[Sample],
    ) -> Float[Array, " B"]:
        """Its value, from those of the components for the sample, or from the sample and those
        that a method has drawn besides: k for each example, which are neighbours."""

    @abstractmethod
    def direct_credit(self, graph: Graph, sample: Sample) -> Credit:
        """What its direct dependence on logits adds to the credit of a method's `assign`."""


class ExpectedSum(AbstractObjective):
    """The sum of the graph's components."""

    @property
    def words(self) -> str:
        return "the expected sum of the components"

    def value(self, graph, values, sample, others):
        return sum((values[part.name] for part in graph.objective), jnp.zeros(sample.batch))

    def direct_credit(self, graph, sample):
        return direct_credit(graph, sample)


class MultiSampleBound(AbstractObjective):
    """The log of the mean of so many importance weights: a lower bound on log p(x), and the closer,
    the more samples (Burda et al. 2015). It depends on the logits of every sample, each by its own
    weight: all of that is in the credit that `assign` gives."""

    samples: int = eqx.field(static=True)

    @property
    def words(self) -> str:
        return f"the {self.samples}-sample bound on the log-likelihood"

    def value(self, graph, values, sample, others):
        logs = all_log_weights(graph, sample, others)
        return jax.nn.logsumexp(logs, axis=1) - jnp.log(logs.shape[1])

    def direct_credit(self, graph, sample):
        return {}


def all_log_weights(
    graph: Graph, sample: Sample, others: Sequence[Sample]
) -> Float[Array, "B samples"]:
    """log p(x, h) - log q(h | x) of every sample of each example, the first one first."""
    parts = [log_weights(graph, each).reshape(sample.batch, -1) for each in (sample, *others)]
    return jnp.concatenate(parts, axis=1)
