"""The pictures of "How HNCA works", for a light and for a dark page.

python docs/pictures.py DIRECTORY
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch, Rectangle


class Ink(NamedTuple):
    """Colours of a page."""

    text: str
    faint: str
    paper: str
    unit: str  # the one that is asked about
    child: str
    function: str


LIGHT = Ink("#1f2328", "#8b949e", "#ffffff", "#c2410c", "#1d4ed8", "#15803d")
DARK = Ink("#e6edf3", "#7d8590", "#131416", "#fb923c", "#7aa2ff", "#4ade80")
WIDTH = 5.2  # inches: a column on a desk, and still readable on a phone


def draw_all(place: Path) -> None:
    """Every picture in both inks, as SVG without fonts of its own."""
    for name, draw in PICTURES.items():
        for suffix, ink in (("light", LIGHT), ("dark", DARK)):
            with matplotlib.rc_context({"svg.hashsalt": "hnca", "font.size": 10}):
                figure = draw(ink)
                path = place / f"{name}-{suffix}.svg"
                figure.savefig(path, metadata={"Date": None}, transparent=True)


def _canvas(height: float, ink: Ink) -> tuple[Figure, Axes]:
    """Axes in inches, without any frame."""
    figure = Figure(figsize=(WIDTH, height))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, WIDTH), ylim=(0, height))
    axes.set_axis_off()
    return figure, axes


def _circle(axes: Axes, at, label: str, colour: str, ink: Ink, filled: bool = False) -> None:
    face = colour if filled else ink.paper
    axes.add_patch(Circle(at, 0.22, facecolor=face, edgecolor=colour, linewidth=2, zorder=3))
    inside = ink.paper if filled else colour
    axes.text(*at, label, ha="center", va="center", color=inside, zorder=4, fontsize=11)


def _box(axes: Axes, at, label: str, colour: str, ink: Ink, filled: bool = False) -> None:
    corner = (at[0] - 0.24, at[1] - 0.2)
    face = colour if filled else ink.paper
    axes.add_patch(
        Rectangle(corner, 0.48, 0.4, facecolor=face, edgecolor=colour, linewidth=2, zorder=3)
    )
    inside = ink.paper if filled else colour
    axes.text(*at, label, ha="center", va="center", color=inside, zorder=4, fontsize=11)


def _arrow(axes: Axes, start, end, colour: str, style: str = "-", bend: float = 0) -> None:
    arrow = FancyArrowPatch(
        start,
        end,
        arrowstyle="-|>",
        mutation_scale=11,
        shrinkA=17,
        shrinkB=18,
        color=colour,
        linestyle=style,
        linewidth=1.4,
        connectionstyle=f"arc3,rad={bend}",
    )
    axes.add_patch(arrow)


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def asks(ink: Ink) -> Figure:
    """What a unit asks its children. The numbers are those of a small network."""
    prior, weights = 0.4, np.array([2.0, -1.0, 0.5])  # of firing; to the children
    biases, fired = np.array([-1.0, 0.3, 0.2]), np.array([1, 0, 1])
    odds = np.stack([biases, biases + weights])  # of the children, had the unit been 0, and 1
    likely = np.where(fired, _sigmoid(odds), 1 - _sigmoid(odds))
    products = likely.prod(axis=1)
    joint = np.array([1 - prior, prior]) * products
    posterior = joint[1] / joint.sum()

    figure, axes = _canvas(4.75, ink)
    unit, xs = (2.6, 4.1), (1.2, 2.6, 4.0)
    _circle(axes, unit, "?", ink.unit, ink)
    before = f"before: it fires with probability {prior:.2f}"
    axes.text(unit[0], 4.52, before, ha="center", color=ink.unit)
    question = ("“Had I been 0, or 1:", "how likely would you", "have done what you did?”")
    for line, text in enumerate(question):
        axes.text(3.2, 4.14 - 0.22 * line, text, color=ink.faint, style="italic")
    for x, did, zero, one in zip(xs, fired, *likely, strict=True):
        _arrow(axes, unit, (x, 2.6), ink.faint)
        _circle(axes, (x, 2.6), str(did), ink.child, ink, filled=bool(did))
        axes.text(x, 2.12, f"if 0:  {zero:.2f}", ha="center", color=ink.child)
        axes.text(x, 1.88, f"if 1:  {one:.2f}", ha="center", color=ink.child)
    times = "  ×  ".join
    for y, value, row, product in zip((1.35, 1.08), (0, 1), likely, products, strict=True):
        text = f"if {value}:   {times(f'{p:.2f}' for p in row)}  =  {product:.3f}"
        axes.text(WIDTH / 2, y, text, ha="center", color=ink.text)
    rule = "posterior  ∝  before × answers"
    axes.text(WIDTH / 2, 0.62, rule, ha="center", color=ink.faint)
    after = f"in hindsight: it fired with probability {posterior:.2f}"
    axes.text(WIDTH / 2, 0.25, after, ha="center", color=ink.unit, fontsize=12)
    return figure


def routes(ink: Ink) -> Figure:
    """The three ways on which credit comes to a unit."""
    figure, axes = _canvas(5.3, ink)
    rows = [
        (
            4.55,
            "1  straight from a function that is known",
            ["ask the function: f with the", "unit at 0, f with the unit at 1", "weight  π(v)"],
        ),
        (
            2.8,
            "2  through the children",
            ["ask the children what they", "would have done; credit with f", "weight  π(v) ρ(v)"],
        ),
        (
            1.05,
            "3  straight from a world that only answers",
            [
                "nobody to ask: all credit",
                "to what was done (REINFORCE)",
                "weight  1 on what was done",
            ],
        ),
    ]
    for y, title, words in rows:
        axes.text(0.15, y + 0.5, title, color=ink.text, fontsize=11, weight="bold")
        for line, text in enumerate(words):
            colour = ink.unit if line == 2 else ink.text
            axes.text(2.55, y + 0.12 - 0.24 * line, text, color=colour)
    unit, middle, end = 0.45, 1.25, 2.05
    _arrow(axes, (unit, 4.4), (end, 4.4), ink.faint)
    _arrow(axes, (end, 4.4), (unit, 4.4), ink.function, "--", 0.45)
    _circle(axes, (unit, 4.4), "v", ink.unit, ink)
    _box(axes, (end, 4.4), "f", ink.function, ink)
    _arrow(axes, (unit, 2.65), (middle, 2.65), ink.faint)
    _arrow(axes, (middle, 2.65), (end, 2.65), ink.faint)
    _arrow(axes, (middle, 2.65), (unit, 2.65), ink.child, "--", 0.6)
    _circle(axes, (unit, 2.65), "v", ink.unit, ink)
    _circle(axes, (middle, 2.65), "c", ink.child, ink, filled=True)
    _box(axes, (end, 2.65), "f", ink.function, ink)
    _arrow(axes, (unit, 0.9), (end, 0.9), ink.faint)
    _circle(axes, (unit, 0.9), "v", ink.unit, ink, filled=True)
    _box(axes, (end, 0.9), "R", ink.text, ink, filled=True)
    for y in (3.7, 1.95):
        axes.plot([0.15, WIDTH - 0.15], [y, y], color=ink.faint, linewidth=0.6)
    return figure


def table(ink: Ink) -> Figure:
    """The table of a layer: the walk of a matrix product, with another thing to do at each step."""
    figure, axes = _canvas(4.3, ink)
    cell, top = 0.2, 3.5
    batch, outputs, units, row, column = 4, 7, 5, 1, 3
    left, middle, right = 0.35, 2.2, 3.85

    def grid(x: float, rows: int, columns: int, marked, colour: str) -> None:
        for i in range(rows):
            for j in range(columns):
                face = colour if marked(i, j) else ink.paper
                corner = (x + j * cell, top - (i + 1) * cell)
                axes.add_patch(Rectangle(corner, cell, cell, facecolor=face, edgecolor=ink.faint))

    grid(left, batch, outputs, lambda i, j: i == row, ink.child)
    grid(middle, outputs, units, lambda i, j: j == column, ink.function)
    grid(right, batch, units, lambda i, j: (i, j) == (row, column), ink.unit)
    axes.text(2.02, 2.92, "×", ha="center", color=ink.text, fontsize=13)
    axes.text(3.55, 2.92, "=", ha="center", color=ink.text, fontsize=13)
    heads = [
        (left + 0.7, "t = tanh(logit/2)", "children, per example", ink.child),
        (middle + 0.5, "T = tanh(w/2)", "weights", ink.function),
        (right + 0.5, "table", "unit, per example", ink.unit),
    ]
    for x, name, what, colour in heads:
        axes.text(x, 3.93, name, ha="center", color=colour)
        axes.text(x, 3.67, what, ha="center", color=ink.faint, fontsize=9)
    lines = [
        ("a matrix product:", "cell  =  Σ  t · T"),
        ("the table:", "cell  =  log Π (1 ± t · T)  + a sum"),
    ]
    for y, (name, formula) in zip((1.45, 1.1), lines, strict=True):
        axes.text(0.35, y, name, color=ink.text)
        axes.text(2.0, y, formula, color=ink.text)
    axes.text(0.35, 0.62, "Both go over the children once, and keep one number", color=ink.faint)
    axes.text(0.35, 0.38, "for each example and unit. No example × child × unit", color=ink.faint)
    axes.text(0.35, 0.14, "array is ever made, and no logarithm for each edge.", color=ink.faint)
    return figure


PICTURES: dict[str, Callable[[Ink], Figure]] = {"asks": asks, "routes": routes, "table": table}


if __name__ == "__main__":
    draw_all(Path(sys.argv[1]))
