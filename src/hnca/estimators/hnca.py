"""Hindsight Network Credit Assignment: credit by influence on the immediate children."""

import json
from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from ..baselines import AbstractBaseline, View, as_baseline
from ..counterfactual import Counterfactuals, Table
from ..credit import Assigned, Credit
from ..graph import AbstractComponent, Graph, Node, Sample
from .base import AbstractEstimator, Values, total


class Route(NamedTuple):
    """The way on which components send credit to a node."""

    children: tuple[str, ...]  # whose counterfactual probabilities carry it; may be none
    opaque: bool  # straight from a function that cannot be evaluated again

    @property
    def label(self) -> str:
        """The key of its baseline in the state: another one for every other route."""
        if self.opaque:
            return "straight"
        plain = not any(mark in name for name in self.children for mark in ',"')
        return f"through {', '.join(self.children) if plain else json.dumps(self.children)}"

    @property
    def centred(self) -> bool:
        """A baseline would cancel analytically in what comes straight from a known function."""
        return self.opaque or bool(self.children)


class HNCA(AbstractEstimator):
    """HNCA and f-HNCA (Eq. 3 and 6), one algorithm for any graph.

    Every unit is asked what it would have been worth at each value v that it could have taken,
    weighted by how likely it is, in hindsight, to have been v. A component f reaches a unit

        straight, f known           weights pi(v)                         worth f with unit = v
        through the children S      weights pi(v) rho_S(v), the           worth f (with unit = v,
                                    posterior given what S did            if it is direct too)
        straight, f opaque          weight on the sampled value           worth f  (REINFORCE)

    - `baseline` is subtracted from f on the last two ways, and has a state for each.
    - `prune_children=False` lets credit come through all children, even where none of them leads
      to the component (ablation "no child pruning").
    - `downstream_only=False` adds the components that the unit has no influence on, through all
      children (with the other switch: ablation "full reward").

    >>> estimator = hnca.HNCA(baseline=hnca.MovingAverage(0.99))
    >>> estimate, state = estimator(graph, sample, estimator.init(graph))
    >>> estimate.credit["h1"].shape
    (5, 3)
    """

    baseline: AbstractBaseline
    prune_children: bool = eqx.field(static=True)
    downstream_only: bool = eqx.field(static=True)

    def __init__(
        self,
        baseline: AbstractBaseline | None = None,
        prune_children: bool = True,
        downstream_only: bool = True,
    ):
        self.baseline = as_baseline(baseline)
        self.prune_children = prune_children
        self.downstream_only = downstream_only

    @property
    def unbiased(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.baseline.unbiased

    @property
    def needs_objective(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.baseline.needs_objective

    def init(self, graph: Graph, *, key: PRNGKeyArray | None = None) -> PyTree:
        objective = graph.objective
        return {
            node.name: {
                route.label: self.baseline.init(node, key=key)
                for route in self._routes(graph, objective, node.name)
                if route.centred
            }
            for node in graph.nodes
        }

    def divisors(self, state: PyTree) -> dict[str, Float[Array, ""]]:
        return self.baseline.divisors({name: [*routes.values()] for name, routes in state.items()})

    def assign(
        self,
        graph: Graph,
        sample: Sample,
        values: Values,
        state: PyTree,
        key: PRNGKeyArray | None,
    ) -> tuple[Assigned, PyTree]:
        return self.assign_from(Counterfactuals(graph, sample), values, state, key)

    def assign_from(
        self,
        tables: Counterfactuals,
        values: Values,
        state: PyTree,
        key: PRNGKeyArray | None = None,
    ) -> tuple[Assigned, PyTree]:
        """The same, by any tables of the sample."""
        graph, sample = tables.graph, tables.sample
        objective = graph.objective
        credit: Credit = {}
        next_state = {name: {} for name in graph.node_names}
        for node in graph.nodes:
            view = View(graph, node, sample, key)
            weights = jnp.zeros((node.layer.choices, sample.batch, node.layer.units))
            for route, components in self._routes(graph, objective, node.name).items():
                worth = _changes(tables, node, route, components)
                if route.centred:
                    signal = total(components, values, sample)
                    own = state[node.name][route.label]
                    gain = signal - self.baseline.value(own, view, components)
                    worth += gain[None, :, None]
                    next_state[node.name][route.label] = self.baseline.update(own, view, signal)
                weights += _hindsight(tables, node, route) * worth
            credit[node.name] = node.layer.expected_score(sample.logits[node.name], weights)
        return [(sample, credit)], next_state

    def _routes(
        self, graph: Graph, objective: Sequence[AbstractComponent], name: str
    ) -> dict[Route, list[AbstractComponent]]:
        """The components that credit the node, by the way on which they do. `objective` has those
        of the graph."""
        children = graph.structure.children[name]
        found: dict[int, Route | None] = {}
        for mediators, direct, places in graph.structure.groups(name):
            known, opaque = (self._route(children, mediators, direct, o) for o in (False, True))
            found |= {place: opaque if objective[place].opaque else known for place in places}
        routes: dict[Route, list[AbstractComponent]] = {}
        for place, component in enumerate(objective):
            if (route := found[place]) is not None:
                routes.setdefault(route, []).append(component)
        return routes

    def _route(
        self, children: tuple[str, ...], mediators: tuple[str, ...], direct: bool, opaque: bool
    ) -> Route | None:
        if not direct and not mediators:
            return Route(children, False) if children and not self.downstream_only else None
        if direct and opaque:
            return Route((), True)
        return Route(mediators if self.prune_children else children, False)


def _changes(
    tables: Counterfactuals, node: Node, route: Route, components: Sequence[AbstractComponent]
) -> Float[Array, "#V #B #U"]:
    """How the components' values would change with the unit's, where that can be known."""
    known = [] if route.opaque else components
    inputs = tables.graph.structure.inputs
    direct = [part for part in known if node.name in inputs[part.name]]
    changes = [component.change(tables, node.name) for component in direct]
    return sum(changes, jnp.zeros((1, 1, 1)))


def _hindsight(tables: Counterfactuals, node: Node, route: Route) -> Table:
    """How likely the unit is to have taken each value: pi(v) rho_S(v) in the paper (Eq. 2)."""
    layer, sample = node.layer, tables.sample
    if route.opaque:
        return layer.indicator(sample[node.name])
    messages = [tables.message(child, node.name) for child in route.children]
    evidence = sum(messages, jnp.zeros((layer.choices, sample.batch, layer.units)))
    return layer.posterior(sample.logits[node.name], evidence)
