"""Runs that differ in nothing but their seed, side by side in one program."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray, PyTree

from .devices import Devices


class SideBySide:
    """A compiled program of one or more runs. `program(data, key, own)` is that of one, and `own`
    what it has of its own; several are its `vmap`, in which all share the data. A run that is
    alone is not mapped over, so that its bits do not depend on there being a way to do several.

    With `donate`, what the runs have of their own is used up."""

    def __init__(self, program: Callable[..., PyTree], devices: Devices, *, donate: bool = False):
        self._program, self._devices = program, devices
        # Donated is all that is not in the first argument.
        self._jitted = eqx.filter_jit(self._run, donate="all-except-first" if donate else "none")
        self._compiled: dict[int, Any] = {}  # by the number of runs

    def __call__(
        self, data: PyTree, keys: Sequence[PRNGKeyArray], own: Sequence[PyTree]
    ) -> list[PyTree]:
        """What the program makes of each of the runs."""
        program = self._compiled.get(len(own), self._jitted)
        return program((data, list(keys)), list(own))

    def compile(self, data: PyTree, keys: Sequence[PRNGKeyArray], own: Sequence[PyTree]) -> None:
        """Does now what the first call with so many runs would do before its work."""
        lowered = self._jitted.lower((data, list(keys)), list(own))
        self._compiled[len(own)] = lowered.compile()

    def _run(self, inputs: tuple[PyTree, list[PRNGKeyArray]], own: list[PyTree]) -> list[PyTree]:
        data, keys = inputs
        program = partial(self._program, data)
        if len(own) == 1:
            results = [program(keys[0], own[0])]
        else:
            together = eqx.filter_vmap(program)(jnp.stack(keys), _stacked(own))
            results = [_one(together, number) for number in range(len(own))]
        return self._devices.everywhere(results)


def _stacked(trees: Sequence[PyTree]) -> PyTree:
    arrays, static = eqx.partition(list(trees), eqx.is_array)
    return eqx.combine(jax.tree.map(lambda *leaves: jnp.stack(leaves), *arrays), static[0])


def _one(tree: PyTree, number: int) -> PyTree:
    return jax.tree.map(lambda leaf: leaf[number] if eqx.is_array(leaf) else leaf, tree)
