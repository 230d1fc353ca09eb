"""`glyphs`: a data set like MNIST that needs nothing but matplotlib's fonts.

Every digit is one of the fonts', shifted, scaled, turned and its stroke changed at random.
Pictures are drawn in blocks, each from a random stream of its own, so that a smaller set is the
beginning of a larger one, and training and test pictures never share a stream."""

from collections.abc import Callable

import numpy as np

from .dataset import Dataset
from .fonts import CELLS, FONTS, SIDE, distance_fields
from .progress import bar

VERSION = 1  # of the drawings: raise it with any change to them, and old caches are passed over
SEED = 0  # the data set `glyphs` is the one from this seed
SIZE = 28  # pixels of a side
BLOCK = 500  # pictures from one random stream; every class equally often

# Uniform ranges. Together they leave a linear classifier about as far from perfect as MNIST does.
SHIFT = (-1.5, 1.5)  # pixels, each way
SCALE = (0.75, 1.05)  # width and height apart
TURN = (-15.0, 15.0)  # degrees
STROKE = (-0.2, 0.9)  # pixels added on each side of a stroke


def glyphs(train: int = 60_000, test: int = 10_000, seed: int = SEED) -> Dataset:
    """Draws digits of 28x28 pixels, white on black, the same ones for the same seed. (Another
    version of matplotlib may hand out outlines that differ in their last digits, and with them a
    pixel here and there by one; the fingerprint tells.)"""
    with bar("Drawing glyphs", train + test) as advance:
        train_images, train_labels = _split(train, seed, 0, advance)
        test_images, test_labels = _split(test, seed, 1, advance)
    source = "matplotlib's fonts, drawn here"
    return Dataset("glyphs", train_images, train_labels, test_images, test_labels, source)


def _split(
    count: int, seed: int, split: int, advance: Callable[[int], None]
) -> tuple[np.ndarray, np.ndarray]:
    images = np.empty((count, SIZE, SIZE), np.uint8)
    labels = np.empty(count, np.uint8)
    for block, start in enumerate(range(0, count, BLOCK)):
        size = min(BLOCK, count - start)
        drawn, named = _block(np.random.default_rng((seed, split, block)), size)
        images[start : start + size], labels[start : start + size] = drawn, named
        advance(size)
    return images, labels


def _block(random: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The first pictures of a block. Its random numbers are drawn for all of them, whatever the
    size, so that no picture depends on how many are wanted."""
    digit = random.permutation(BLOCK) % 10
    font = random.integers(len(FONTS), size=BLOCK)
    shift = random.uniform(*SHIFT, (BLOCK, 2))
    scale = random.uniform(*SCALE, (BLOCK, 2))
    turn = np.radians(random.uniform(*TURN, BLOCK))
    stroke = random.uniform(*STROKE, BLOCK)
    columns, rows = _positions(shift[:size], scale[:size], turn[:size])
    field = _interpolated((font * 10 + digit)[:size], columns, rows)
    # Distances shrink and grow with the picture; half a pixel around the edge is grey.
    inside = field * scale[:size].mean(1)[:, None, None] + stroke[:size, None, None] + 0.5
    return np.rint(255 * np.clip(inside, 0, 1)).astype(np.uint8), digit[:size].astype(np.uint8)


def _positions(
    shift: np.ndarray, scale: np.ndarray, turn: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Where in its field every pixel of a picture looks: columns and rows [N, SIZE, SIZE]."""
    axis = np.arange(SIZE) - (SIZE - 1) / 2
    x = axis[None, None, :] - shift[:, 0, None, None]
    y = axis[None, :, None] - shift[:, 1, None, None]
    cos, sin = np.cos(turn)[:, None, None], np.sin(turn)[:, None, None]
    columns = (x * cos + y * sin) / scale[:, 0, None, None]
    rows = (y * cos - x * sin) / scale[:, 1, None, None]
    return columns * CELLS + (SIDE - 1) / 2, rows * CELLS + (SIDE - 1) / 2


def _interpolated(which: np.ndarray, columns: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The fields between their points, bilinear; beyond their rim, which is black, as there."""
    fields = distance_fields().reshape(-1)
    left = np.clip(columns, 0, SIDE - 1.001)
    top = np.clip(rows, 0, SIDE - 1.001)
    column, row = left.astype(np.int64), top.astype(np.int64)
    right_share, lower_share = left - column, top - row
    at = which[:, None, None] * SIDE**2 + row * SIDE + column
    upper = fields[at] * (1 - right_share) + fields[at + 1] * right_share
    lower = fields[at + SIDE] * (1 - right_share) + fields[at + SIDE + 1] * right_share
    return upper * (1 - lower_share) + lower * lower_share
