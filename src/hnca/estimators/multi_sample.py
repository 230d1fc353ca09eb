"""What VIMCO and importance-weighted EM share: K samples, a weight for each, credit to all of them.

The objective has `LogProb` and `Entropy` components only. Samples h_k of all nodes come from the
nodes' own policies, q, and have the weights w_k = p(x, h_k) / q(h_k | x) of `bounds.log_weights`.
Nodes are of two kinds. One with a `LogProb` of its own, as in a VAE, is a proposal: p has another
distribution of it. One without belongs to the model, p(y | x) = sum_h p(y | h) q(h | x), and drops
out of the weights. With w~_k = w_k / sum_j w_j, both methods give the layers of the objective

    credit of sample k  =  w~_k  x  d log p / d logits

and differ in what they give to the nodes.
"""

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from ..credit import Assigned, Credit
from ..graph import Graph, Sample
from ..objective import LogProb
from ..validation import quoted
from ..weights import Weighted, scaled
from .base import AbstractEstimator, Values, reinforced, required
from .objectives import AbstractObjective, MultiSampleBound, all_log_weights

Logs = Float[Array, "B samples"]


class AbstractMultiSample(AbstractEstimator):
    """A method for the likelihood, from several whole forward passes."""

    samples: eqx.AbstractVar[int]

    def __check_init__(self):
        if self.samples < 2:
            raise ValueError(f"{type(self).__name__}: needs at least 2 samples, not {self.samples}")

    @abstractmethod
    def gains(self, log_weights: Logs, proposal: bool) -> Logs:
        """What d log q / d logits of a node is multiplied by, in each sample."""

    @property
    def objective(self) -> AbstractObjective:
        """The bound, in place of the sum of components."""
        return MultiSampleBound(self.samples)

    def init(self, graph: Graph, *, key: PRNGKeyArray | None = None) -> PyTree:
        """No state."""
        return {}

    def assign(
        self,
        graph: Graph,
        sample: Sample,
        values: Values,
        state: PyTree,
        key: PRNGKeyArray | None,
    ) -> tuple[Assigned, PyTree]:
        """The credit of the sample, and of the others, which are drawn here."""
        _, own = jax.random.split(required(key, self))  # the caller may have drawn with `key`
        _refuse_other_objectives(graph, self)
        each = lambda array: jnp.repeat(array, self.samples - 1, axis=0)
        context = {name: each(sample[name]) for name in graph.context_names}
        return self.credited(graph, sample, graph.sample(own, **context)), state

    def credited(self, graph: Graph, sample: Sample, others: Sample) -> Assigned:
        """The credit of these samples: one, and K - 1 others, of each example."""
        logs = all_log_weights(graph, sample, [others])
        shares = jax.nn.softmax(logs, axis=1)
        gains = {proposal: self.gains(logs, proposal) for proposal in (False, True)}

        def credit(each: Sample, which: slice) -> Credit:
            found: Credit = {}
            for part in graph.objective:
                if isinstance(part, LogProb):
                    of_weight = shares[:, which].ravel()
                    found |= scaled(part.direct_credit(graph, each), of_weight)
            for node in graph.nodes:
                gain = gains[f"p:{node.name}" in found][:, which].ravel()
                logits, taken = each.logits[node.name], each[node.name]
                found[node.name] = reinforced(node.layer, logits, taken, gain)
            return found

        return [(sample, credit(sample, slice(0, 1))), (others, credit(others, slice(1, None)))]


def _refuse_other_objectives(graph: Graph, estimator: AbstractEstimator) -> None:
    """What has no likelihood of data, by name. (`log_weights` refuses other components.)"""
    method = type(estimator).__name__
    if weighted := [part.name for part in graph.objective if isinstance(part, Weighted)]:
        raise ValueError(
            f"{method} is for a likelihood, in which no component has a weight, as"
            f" {quoted(weighted)} have; only examples may"
        )
    of = [part.of for part in graph.objective if isinstance(part, LogProb)]
    if not set(of).intersection(graph.context_names):
        raise ValueError(f"{method} is for a likelihood: it needs a LogProb of a context array")
