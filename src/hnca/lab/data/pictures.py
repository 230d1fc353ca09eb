"""A look at a data set."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..files import write_figure
from .dataset import Dataset
from .sources import class_names


def draw_examples(dataset: Dataset, file: Path, columns: int = 16) -> None:
    """Draws the first training images of every class, a row each, into a file."""
    from matplotlib.figure import Figure

    height, width = dataset.train_images.shape[1:]
    figure = Figure(figsize=(1.2 + 0.5 * columns, 0.7 + 0.5 * dataset.classes * height / width))
    axes = figure.add_subplot()
    axes.imshow(grid(dataset, columns), cmap="gray", vmin=0, vmax=255, interpolation="nearest")
    rows = np.arange(dataset.classes) * (height + 1) + (height - 1) / 2
    axes.set_yticks(rows, class_names(dataset.name, dataset.classes))
    axes.set_xticks([])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    counts = f"{len(dataset.train_labels):,} + {len(dataset.test_labels):,} images"
    axes.set_title(f"{dataset.name}: {counts} of {width}x{height} pixels")
    write_figure(file, figure, dpi=200, bbox_inches="tight")


def grid(dataset: Dataset, columns: int) -> np.ndarray:
    """The first `columns` training images of every class side by side, a grey line between."""
    examples = [
        dataset.train_images[np.flatnonzero(dataset.train_labels == label)[:columns]]
        for label in range(dataset.classes)
    ]
    return tiled(examples, dataset.train_images.shape[1:], columns, np.uint8(64))


def tiled(
    rows: Sequence[Iterable[Any]], shape: tuple[int, ...], columns: int, between: np.generic | float
) -> np.ndarray:
    """Rows of no more than so many images each as one picture, with a pixel `between` them."""
    height, width = shape
    picture = np.full((len(rows) * (height + 1) - 1, columns * (width + 1) - 1), between)
    for i, row in enumerate(rows):
        for j, image in enumerate(row):
            top, left = i * (height + 1), j * (width + 1)
            picture[top : top + height, left : left + width] = np.reshape(image, shape)
    return picture
