"""What a VAE has learned, as one picture."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ...graph import Graph, Sample
from ...models import generative
from ..data.pictures import tiled
from ..experiments import Images, binarise
from ..files import write_figure

COLUMNS, PRIOR_ROWS = 16, 4


def draw_generated(graph: Graph, data: Images, path: Path, *, seed: int, title: str) -> None:
    """Samples from the prior; reconstructions under their originals; samples before and after a
    unit of the top layer took another value, and the difference."""
    prior_key, data_key, flip_key = jax.random.split(jax.random.key(seed), 3)
    decoder = generative(graph)
    prior = means(dreams(decoder, prior_key, PRIOR_ROWS * COLUMNS))
    originals, rebuilt = reconstructions(graph, decoder, data, data_key)
    before, after, units = flips(decoder, graph.node_names[-1], flip_key)
    parts = [
        Part("samples from the prior", prior),
        Part("test images, binarised, above their reconstructions", [*originals, *rebuilt]),
        Part("samples, and the same with one unit of the top layer changed", [*before, *after]),
        changes(before, after, units),
    ]
    draw_parts(parts, data.shape, path, title)


class Part(NamedTuple):
    """A part of the picture: images in rows, below a heading."""

    heading: str
    images: Any
    most: float | None = None  # of differences, which are around 0; None for probabilities
    units: Sequence[int] = ()  # numbers above the columns


def changes(before: Any, after: Any, units: Sequence[int]) -> Part:
    """What becomes of images by units: in colours that the largest change fills, so that those of
    a weak model are seen."""
    difference = np.asarray(after) - np.asarray(before)
    most = float(np.abs(difference).max()) or 1.0
    scale = f"full colour: {most:.2g} of a pixel's probability"
    heading = f"what the change adds (red) and takes away (blue); {scale}"
    return Part(heading, difference, most, units)


def dreams(decoder: Graph, key: PRNGKeyArray, count: int) -> Sample:
    """Samples from the generative model, a batch of them."""
    several = jax.vmap(decoder.sample)(jax.random.split(key, count))
    return jax.tree.map(lambda array: array.reshape(count, *array.shape[2:]), several)


def means(sample: Sample) -> Float[Array, "B pixels"]:
    """The probability of every pixel to be one."""
    return jax.nn.sigmoid(sample.logits["x"])


def reconstructions(
    graph: Graph, decoder: Graph, data: Images, key: PRNGKeyArray
) -> tuple[Float[Array, "B pixels"], Float[Array, "B pixels"]]:
    """Test images of all classes, and what the decoder makes of their code."""
    test_images, labels = data.test["image"], data.test["label"]
    rows = [np.flatnonzero(labels == label) for label in range(data.classes)]
    chosen = [row[place] for place in range(COLUMNS) for row in rows if place < len(row)][:COLUMNS]
    pixel_key, code_key = jax.random.split(key)
    images = jnp.asarray(test_images[np.sort(chosen)].reshape(len(chosen), -1))
    x = binarise(pixel_key, images)
    code = graph.sample(code_key, x=x)
    replayed = decoder.observe(x=x, **{name: code[name] for name in graph.node_names})
    return x, means(replayed)


def flips(
    decoder: Graph, top: str, key: PRNGKeyArray
) -> tuple[Float[Array, "B pixels"], Float[Array, "B pixels"], list[int]]:
    """Samples before and after one unit of the top layer takes its next value, with the same
    chances below it; for each sample, the unit that changes most among some that were tried."""
    dream_key, below_key, unit_key = jax.random.split(key, 3)
    sample = dreams(decoder, dream_key, COLUMNS)
    layer = decoder[top].layer
    tried = jax.random.permutation(unit_key, layer.units)[:32]
    same = lambda values: means(decoder.resample(below_key, sample, top, values))
    before = same(sample[top])

    def change(unit):
        choice = layer.choice(sample[top])
        moved = choice.at[:, unit].set((choice[:, unit] + 1) % layer.choices)
        return same(layer.chosen(moved))

    after = jax.lax.map(change, tried)  # [units tried, B, pixels]
    best = jnp.argmax(jnp.sum((after - before[None]) ** 2, axis=-1), axis=0)
    return before, after[best, jnp.arange(COLUMNS)], [int(unit) for unit in tried[best]]


def _tiled(images, shape: tuple[int, ...]) -> np.ndarray:
    """Images side by side, `COLUMNS` in a row."""
    rows = [images[start : start + COLUMNS] for start in range(0, len(images), COLUMNS)]
    return tiled(rows, shape, COLUMNS, np.nan)


def draw_parts(parts: list[Part], shape: tuple[int, ...], path: Path, title: str) -> None:
    """Draws the parts of the picture, one below the other."""
    from matplotlib.figure import Figure

    pictures = [_tiled(part.images, shape) for part in parts]
    heights = [picture.shape[0] for picture in pictures]
    figure = Figure(figsize=(10, sum(heights) * 10 / pictures[0].shape[1] + 1.8))
    figure.set_layout_engine("constrained")
    figure.suptitle(title)
    rows = figure.subplots(len(parts), 1, height_ratios=heights)
    for axes, part, picture in zip(rows, parts, pictures, strict=True):
        colors = {"cmap": "gray", "vmin": 0, "vmax": 1}
        if part.most is not None:
            colors = {"cmap": "RdBu_r", "vmin": -part.most, "vmax": part.most}
        axes.imshow(picture, interpolation="nearest", **colors)
        axes.set_title(part.heading, fontsize="small", loc="left", pad=18 if part.units else 6)
        for column, unit in enumerate(part.units):
            middle = column * (shape[1] + 1) + (shape[1] - 1) / 2
            axes.text(middle, -2, f"unit {unit}", fontsize=7, ha="center", va="bottom")
        axes.axis("off")
    write_figure(path, figure, dpi=130)
