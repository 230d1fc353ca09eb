"""The multi-sample bound of a trained VAE on its test images."""

from collections.abc import Callable, Iterable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, UInt8

from ..bounds import multi_sample_bound
from ..data import Dataset
from ..experiments import binarise
from ..graph import Graph

AT_ONCE = 500  # images: bounds the memory


def evaluate_bound(
    graph: Graph,
    data: Dataset,
    samples: int,
    seed: int,
    track: Callable[[list[int]], Iterable[int]] = lambda starts: starts,
) -> dict[str, Any]:
    """The mean bound over the test images, each binarised once, and its standard error. Every
    image has a key of its own, made of the seed: no other setting changes the outcome."""

    @eqx.filter_jit
    def bounds(images: UInt8[Array, "N pixels"], keys: PRNGKeyArray) -> Float[Array, " N"]:
        def one(image, key):
            pixel_key, bound_key = jax.random.split(key)
            x = binarise(pixel_key, image)
            return multi_sample_bound(graph, bound_key, samples, x=x[None])[0]

        return jax.vmap(one)(images, keys)

    images = data.test_images.reshape(len(data.test_images), -1)
    keys = jax.random.split(jax.random.key(seed), len(images))
    starts = list(range(0, len(images), AT_ONCE))
    found = []
    for start in track(starts):
        chunk = slice(start, start + AT_ONCE)
        found.append(np.asarray(bounds(jnp.asarray(images[chunk]), keys[chunk])))
    every = np.concatenate(found).astype(np.float64)
    error = float(every.std(ddof=1) / np.sqrt(len(every))) if len(every) > 1 else None
    return {
        "test_bound": float(every.mean()),
        "standard_error": error,
        "samples": samples,
        "seed": seed,
        "images": len(every),
    }
