"""`glyphs`: a data set like MNIST that needs nothing but matplotlib's fonts.

Every digit is one of the fonts', shifted, scaled, turned and its stroke changed at random.
Pictures are drawn in blocks, each from a random stream of its own, so that a smaller set is the
beginning of a larger one, and training and test pictures never share a stream.

They are drawn from signed distance fields. A field says for every point how far it lies inside (+)
or outside (-) of a digit's outline. Unlike a picture, it can be turned, scaled and interpolated
without loss at the edge, and a thicker or thinner stroke is a number added to it."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

from ..errors import UserError
from .dataset import Dataset

VERSION = 1  # of the drawings: raise it with any change to them, and old caches are passed over
SEED = 0  # the data set `glyphs` is the one from this seed
SIZE = 28  # pixels of a side
TRAIN, TEST = 60_000, 10_000  # pictures, as many as of MNIST
BLOCK = 500  # pictures from one random stream; every class equally often

# Uniform ranges. Together they leave a linear classifier about as far from perfect as MNIST does.
SHIFT = (-1.5, 1.5)  # pixels, each way
SCALE = (0.75, 1.05)  # width and height apart
TURN = (-15.0, 15.0)  # degrees
STROKE = (-0.2, 0.9)  # pixels added on each side of a stroke

# Only those with figures: the others of matplotlib's fonts have symbols or empty boxes there.
# Left out as well: Computer Modern math italic, for its old-style figures, of which 1 is a small I,
# and text italic, which only newer versions of matplotlib have.
FONTS = (
    "DejaVuSans",
    "DejaVuSans-Bold",
    "DejaVuSans-BoldOblique",
    "DejaVuSans-Oblique",
    "DejaVuSansMono",
    "DejaVuSansMono-Bold",
    "DejaVuSansMono-BoldOblique",
    "DejaVuSansMono-Oblique",
    "DejaVuSerif",
    "DejaVuSerif-Bold",
    "DejaVuSerif-BoldItalic",
    "DejaVuSerif-Italic",
    "STIXGeneral",
    "STIXGeneralBol",
    "STIXGeneralBolIta",
    "STIXGeneralItalic",
    "cmb10",
    "cmr10",
    "cmss10",
    "cmtt10",
)
HEIGHT = 20.0  # the larger side of a digit's box, in pixels of the final picture
CELLS = 2  # points of a field for each pixel
SIDE = 56  # points of a field for each side: the digit's box and 4 pixels of margin


def glyphs(
    train: int = TRAIN,
    test: int = TEST,
    seed: int = SEED,
    *,
    advance: Callable[[int], None] = lambda drawn: None,
) -> Dataset:
    """Draws digits of 28x28 pixels, white on black, the same ones for the same seed. (Another
    version of matplotlib may hand out outlines that differ in their last digits, and with them a
    pixel here and there by one; the fingerprint tells.) `advance` is told of every few drawn."""
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


@cache
def distance_fields() -> np.ndarray:
    """The fields of all fonts and digits, in pixels: float32 [fonts, 10, SIDE, SIDE]."""
    fields = [[_field(_segments(font, digit)) for digit in range(10)] for font in FONTS]
    return np.array(fields, np.float32)


def _segments(font: str, digit: int) -> np.ndarray:
    """A digit's outline as straight pieces, its box centred and of the standard size: float32
    [2 ends, x and y, pieces]."""
    import matplotlib
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    file = Path(matplotlib.get_data_path(), "fonts", "ttf", f"{font}.ttf")
    if not file.is_file():
        raise UserError(f"glyphs: this matplotlib lacks its font {file.name}: install it anew")
    path = TextPath((0, 0), str(digit), size=50, prop=FontProperties(fname=file))
    contours = [np.asarray(contour).T for contour in path.to_polygons()]  # closed: [x and y, ends]
    ends = [np.concatenate([c[:, part] for c in contours], 1) for part in (np.s_[:-1], np.s_[1:])]
    low, high = ends[0].min(1, keepdims=True), ends[0].max(1, keepdims=True)
    return np.array((ends - (low + high) / 2) * (HEIGHT / (high - low).max()), np.float32)


def _field(segments: np.ndarray) -> np.ndarray:
    """The signed distance to an outline, on the grid of a picture whose rows run downwards."""
    axis = (np.arange(SIDE, dtype=np.float32) - (SIDE - 1) / 2) / CELLS
    x, y = (grid.reshape(-1, 1) for grid in np.meshgrid(axis, -axis))  # [points, 1]
    (x0, y0), (x1, y1) = segments
    dx, dy = x1 - x0, y1 - y0
    along = ((x - x0) * dx + (y - y0) * dy) / np.maximum(dx**2 + dy**2, 1e-12)
    along = np.clip(along, 0, 1)
    distance = np.sqrt(((x - x0 - along * dx) ** 2 + (y - y0 - along * dy) ** 2).min(1))
    return np.where(_inside(x, y, segments), distance, -distance).reshape(SIDE, SIDE)


def _inside(x: np.ndarray, y: np.ndarray, segments: np.ndarray) -> np.ndarray:
    """Whether the outline winds around a point: the pieces that cross a ray to its right, counted
    with their direction, do not cancel."""
    (x0, y0), (x1, y1) = segments
    start_below, end_below = y0 <= y, y1 <= y
    slope = (x1 - x0) / np.where(y0 == y1, 1, y1 - y0)
    right = x0 + (y - y0) * slope > x
    return (right & start_below & ~end_below).sum(1) != (right & end_below & ~start_below).sum(1)
