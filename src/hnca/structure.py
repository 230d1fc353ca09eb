"""Who reads what in a graph: names in plain Python, found once, when the graph is made."""

from collections.abc import Mapping

Names = tuple[str, ...]
Group = tuple[Names, bool, tuple[int, ...]]  # mediators, direct or not, the components' places


class Structure:
    """The edges of a graph, and what follows from them. It has no arrays and never changes, so it
    is no part of what jax flattens; two graphs of the same names and edges have equal ones.

    `parents` has the nodes, parents before children; `inputs` has what each component of the
    objective reads; `tied` has the owners of the layers that nodes and
    components have from another.
    """

    def __init__(
        self,
        parents: Mapping[str, Names],
        inputs: Mapping[str, Names],
        tied: Mapping[str, str],
    ):
        self.parents, self.inputs, self.tied = dict(parents), dict(inputs), dict(tied)
        self.nodes: Names = tuple(self.parents)
        self.place = {name: place for place, name in enumerate(self.nodes)}
        self.component = {name: place for place, name in enumerate(self.inputs)}
        read = [*self.parents.values(), *self.inputs.values()]
        names = dict.fromkeys(name for each in read for name in each)
        self.context: Names = tuple(name for name in names if name not in self.place)
        self.children = self._children()
        self.ancestors = self._ancestors()
        self.downstream = self._downstream()
        self._direct, self._reached = self._bits()
        self._groups: dict[str, tuple[Group, ...]] = {}
        self._edges = tuple(self.parents.items()), tuple(self.inputs.items())
        self._hash = hash(self._edges)

    def _children(self) -> dict[str, Names]:
        children: dict[str, list[str]] = {name: [] for name in self.nodes}
        for name, parents in self.parents.items():
            for parent in parents:
                if parent in children:
                    children[parent].append(name)
        return {name: tuple(found) for name, found in children.items()}

    def _ancestors(self) -> dict[str, frozenset[str]]:
        """For each component, the nodes that it depends on, directly or through others."""
        above: dict[str, frozenset[str]] = {}  # each node, and all that it depends on

        def nodes_behind(names: Names) -> frozenset[str]:
            return frozenset().union(*(above[name] for name in names if name in above))

        for name, parents in self.parents.items():
            above[name] = nodes_behind(parents) | {name}
        return {name: nodes_behind(names) for name, names in self.inputs.items()}

    def _downstream(self) -> dict[str, Names]:
        """For each node, the components that depend on it."""
        found: dict[str, list[str]] = {name: [] for name in self.nodes}
        for component, ancestors in self.ancestors.items():
            for name in ancestors:
                found[name].append(component)
        return {name: tuple(components) for name, components in found.items()}

    def descendants(self, name: str) -> frozenset[str]:
        """The nodes that depend on a node, directly or through others."""
        found = {name}
        for each, parents in self.parents.items():
            if found.intersection(parents):
                found.add(each)
        return frozenset(found - {name})

    def mediators(self, name: str, component: str) -> Names:
        """The children of a node from which the component can be reached (ch^i in the paper)."""
        ancestors = self.ancestors[component]
        return tuple(child for child in self.children[name] if child in ancestors)

    def groups(self, name: str) -> tuple[Group, ...]:
        """All components, by the way on which a node can have influence on them. Found once for a
        node, by whole sets of components at a time: in a long network, there are many pairs."""
        if name not in self._groups:
            apart = [((), (1 << len(self.inputs)) - 1)]  # the mediators, and the components' bits
            for child in self.children[name]:
                apart = [
                    half
                    for children, bits in apart
                    for half in (
                        ((*children, child), bits & self._reached[child]),
                        (children, bits & ~self._reached[child]),
                    )
                ]
            halves = [
                (children, direct, bits & (self._direct[name] if direct else ~self._direct[name]))
                for children, bits in apart
                for direct in (True, False)
            ]
            places = lambda bits: tuple(i for i in range(bits.bit_length()) if bits >> i & 1)
            self._groups[name] = tuple((c, d, places(bits)) for c, d, bits in halves if bits)
        return self._groups[name]

    def _bits(self) -> tuple[dict[str, int], dict[str, int]]:
        """For each node, a bit for every component that reads it, and that depends on it."""
        direct = dict.fromkeys(self.nodes, 0)
        for place, names in enumerate(self.inputs.values()):
            for name in names:
                if name in direct:
                    direct[name] |= 1 << place
        reached = dict(direct)
        for name in reversed(self.nodes):
            for child in self.children[name]:
                reached[name] |= reached[child]
        return direct, reached

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Structure) and self._edges == other._edges

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"Structure(parents={self.parents}, inputs={self.inputs})"
