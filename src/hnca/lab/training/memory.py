"""The memory that a network needs, against what there is: told before it is asked for."""

import math
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import equinox as eqx
import jax

from ...graph import Graph
from ..errors import UserError

COPIES = 4  # of the parameters: themselves, their gradient, and two moments of Adam
ACTIVATIONS = 8  # arrays of the size of a layer's units, for each example of a batch
# What a container may have, by the two versions of Linux's control groups.
LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def check_memory(make_graph: Callable[[], Graph], batch_size: int, runs: int) -> None:
    """Refuses a network that cannot be trained here. It is not made for that."""
    try:
        graph = eqx.filter_eval_shape(make_graph)
    except Exception:
        return  # what is wrong with it is told when it is made; some cannot be made of shapes
    need, there = runs * needed(graph, batch_size), available()
    if there is not None and need > there:
        raise UserError(
            f"the network would need {_words(need)} of memory to train, but there is "
            f"{_words(there)}: take a smaller one"
        )


def needed(graph: Graph, batch_size: int) -> int:
    """Bytes to train a network, or its shapes, at least."""
    leaves = [leaf for leaf in jax.tree.leaves(graph) if hasattr(leaf, "shape")]
    parameters = sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in leaves)
    values = sum(node.layer.units * node.layer.choices for node in graph.nodes)
    return COPIES * parameters + ACTIVATIONS * batch_size * values * 4


def available() -> int | None:
    """Bytes that there are: those of the device, if it tells, or of this machine."""
    stats = jax.local_devices()[0].memory_stats() or {}
    if "bytes_limit" in stats:
        return stats["bytes_limit"]
    found = []
    with suppress(AttributeError, ValueError, OSError):  # not every system has these
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for limit in LIMITS:
        with suppress(OSError, ValueError):  # "max" is no limit
            found.append(int(Path(limit).read_text()))
    return min(found, default=None)


def _words(count: int) -> str:
    return f"{count / 2**30:,.1f} GiB"
