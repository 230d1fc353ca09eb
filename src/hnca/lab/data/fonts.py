"""Digits of the fonts that matplotlib ships, as signed distance fields.

A field says for every point how far it lies inside (+) or outside (-) of the outline. Unlike a
picture, it can be turned, scaled and interpolated without loss at the edge, and a thicker or
thinner stroke is a number added to it."""

from functools import cache
from pathlib import Path

import numpy as np

from ..errors import UserError

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
