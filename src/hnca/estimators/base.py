"""What every estimator is: a way to assign credit to the logits of the nodes."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray, PyTree

from ..credit import Credit, Estimate, added, direct_credit, gradients
from ..graph import AbstractComponent, Graph, Sample

Values = Mapping[str, Float[Array, " B"]]  # of components, by their names


class AbstractEstimator(eqx.Module):
    """Estimates the gradient of the expected objective from a sample.

    A method fills in `init` and `assign`; the rest is the same for all of them.
    """

    unbiased: eqx.AbstractClassVar[bool]

    @abstractmethod
    def init(self, graph: Graph) -> PyTree:
        """The state before the first batch (baselines)."""

    @abstractmethod
    def assign(
        self,
        graph: Graph,
        sample: Sample,
        values: Values,
        state: PyTree,
        key: PRNGKeyArray | None,
    ) -> tuple[Credit, PyTree]:
        """The credit of every node for its influence on the objective, given the `values` of the
        components; direct dependence on parameters is not its concern."""

    @eqx.filter_jit
    def __call__(
        self,
        graph: Graph,
        sample: Sample,
        state: PyTree,
        *,
        reward: ArrayLike | Mapping[str, ArrayLike] | None = None,
        key: PRNGKeyArray | None = None,
    ) -> tuple[Estimate, PyTree]:
        """One estimate, and the state for the next one."""
        values = graph.component_values(sample, reward)
        influence, state = self.assign(graph, sample, values, state, key)
        credit = added(influence, direct_credit(graph, sample))
        credit, state = jax.lax.stop_gradient((credit, state))
        value = total(graph.objective, values, sample)
        return Estimate(credit, gradients(graph, sample, credit), value), state


def total(
    components: Iterable[AbstractComponent], values: Values, sample: Sample
) -> Float[Array, " B"]:
    """Sum of the values of these components."""
    return sum((values[part.name] for part in components), jnp.zeros(sample.batch))
