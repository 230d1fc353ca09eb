"""The devices of a run: each batch is spread over them, everything else is on all of them."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import PyTree

from ..errors import UserError
from . import hosts

AXIS = "examples"


class Devices:
    """One device, by default the first one here, or several, which may be of several processes.
    One alone is left to itself: nothing is said to the compiler."""

    def __init__(self, devices: Sequence[Any] | None = None):
        self.mesh = Mesh(np.array(devices or jax.local_devices()[:1]), (AXIS,))

    @staticmethod
    def first(count: int) -> "Devices":
        """The first so many of each process."""
        mine: dict[int, list] = {}
        for device in jax.devices():
            mine.setdefault(device.process_index, []).append(device)
        there, *others = {len(devices) for devices in mine.values()}
        if others:  # JAX needs this to let processes talk at all
            raise UserError("all processes must have the same number of devices")
        if (most := hosts.maximum(count)) > there:  # in one process: then all refuse
            raise UserError(
                f"--devices {most}, but there are {there}: take fewer, or make more of a CPU by "
                f"XLA_FLAGS=--xla_force_host_platform_device_count={most}"
            )
        return Devices([device for devices in mine.values() for device in devices[:count]])

    def __len__(self) -> int:
        return self.mesh.size

    def __str__(self) -> str:
        owners = {device.process_index for device in self.mesh.devices.flat}
        kind = self.mesh.devices.flat[0].device_kind
        where = f" in {len(owners)} processes" if len(owners) > 1 else ""
        return f"{len(self)} x {kind}{where}"

    def everywhere(self, tree: PyTree) -> PyTree:
        """The same arrays, whole on every device."""
        return self._placed(tree, PartitionSpec())

    def spread(self, tree: PyTree, axis: int = 0) -> PyTree:
        """The same arrays, cut along an axis: an equal part on each device."""
        return self._placed(tree, PartitionSpec(*[None] * axis, AXIS))

    def in_parts(self, function: Callable[[PyTree], PyTree], rows: PyTree) -> PyTree:
        """The function of arrays whose rows do not mind each other, each device with its part of
        them. Where they are not a multiple, some of the first are done twice."""
        if len(self) == 1:
            return function(rows)
        count = len(jax.tree.leaves(rows)[0])
        dealt = jnp.arange(-(-count // len(self)) * len(self)) % count
        dealt = dealt.reshape(len(self), -1)
        parts = self.spread(jax.tree.map(lambda array: array[dealt], rows))
        results = jax.vmap(function)(parts)
        return jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:])[:count], results)

    def _placed(self, tree: PyTree, spec: PartitionSpec) -> PyTree:
        if len(self) == 1:
            return tree
        return eqx.filter_shard(tree, NamedSharding(self.mesh, spec))
