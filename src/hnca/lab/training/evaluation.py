"""A trained network on its test images, more closely than while it trained."""

from collections.abc import Callable, Iterable
from typing import Any

import equinox as eqx
import jax
import numpy as np

from ...graph import Graph
from ..experiments import AbstractExperiment
from .engine import TEST_BATCH, Split, measured_images


def evaluate(
    experiment: AbstractExperiment,
    graph: Graph,
    test_set: Split,
    seed: int,
    track: Callable[[list[int]], Iterable[int]] = lambda starts: starts,
) -> dict[str, Any]:
    """The mean of each metric of the experiment's test, and its standard error over the images.
    Every image has a key of its own, made of the seed. `track` may show the progress."""
    count = len(test_set.labels)
    keys = jax.random.split(jax.random.key(seed), count)
    program, found = eqx.filter_jit(measured_images), []
    for start in track(list(range(0, count, TEST_BATCH))):
        rows = slice(start, start + TEST_BATCH)
        found.append(jax.device_get(program(experiment, graph, test_set[rows], keys[rows])))
    result: dict[str, Any] = {"seed": seed, "images": count}
    for name in found[0]:
        values = np.concatenate([each[name] for each in found]).astype(np.float64)
        error = standard_error(values)
        result |= {name: float(values.mean()), f"{name}_standard_error": float(error)}
    return result


def standard_error(values: np.ndarray) -> float:
    """Of the mean of independent values; 0 where one value does not tell."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0
