"""The files of a comparison of methods: a figure, a spreadsheet, and everything as JSON."""

import csv
import io
from pathlib import Path
from typing import Any

from ...comparison import Comparison, Row
from ..files import take_literally, write_figure, write_whole
from .labels import color

# Of a name from its point, in points: near ones first.
OFFSETS = [
    (side * 7, up) for up in (0, 9, -9, 18, -18, 27, -27, 36, -36, 45, -45) for side in (1, -1)
]


def write_comparison(found: Comparison, directory: Path, title: str) -> list[Path]:
    """Writes them into a directory, which is made if need be."""
    directory.mkdir(parents=True, exist_ok=True)
    files = {name: directory / f"compare.{name}" for name in ("png", "csv", "json")}
    write_figure(files["png"], draw_comparison(found, title), dpi=150)
    write_whole(files["csv"], _spreadsheet(found).encode())
    write_whole(files["json"], found.to_json().encode())
    return list(files.values())


def _spreadsheet(found: Comparison) -> str:
    records = found.records()
    columns = list(dict.fromkeys(name for record in records for name in record))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()


def draw_comparison(found: Comparison, title: str) -> Any:
    """Noise against time, one dot a method. Of those on the frontier, none is both faster and less
    noisy than another."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure  # takes a while to import

    figure = Figure(figsize=(8, 6), layout="constrained")
    FigureCanvasAgg(figure)  # knows how long words are
    axes = figure.subplots()
    shown = [row for row in found.rows if row.mean_noise]
    for row in shown:
        face = color(row.name) if row.unbiased else "white"
        mark = "D" if row.objective else "o"
        axes.scatter(
            *place(row), s=45, color=face, edgecolor=color(row.name), marker=mark, zorder=3
        )
    if fair := [row for row in shown if row.unbiased and row.objective is None]:
        edge = zip(*map(place, frontier(fair)), strict=True)
        axes.step(*edge, where="post", color="0.5", lw=1, zorder=1)
    axes.axvline(found.rows[-1].milliseconds, color="0.7", ls="--", lw=1)
    axes.set(xscale="log", yscale="log", title=title, xlabel="milliseconds a step")
    axes.set(ylabel="noise: variance of a parameter's gradient, for a fixed example")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(lambda x, _: f"{x:g}" if f"{x:e}"[0] in "2357" else "")
    axes.yaxis.set_minor_formatter("")
    axes.grid(alpha=0.25, which="both")
    axes.margins(0.15)
    _add_legend(figure, any(row.objective for row in shown))
    _add_names(figure, axes, {row.name: place(row) for row in shown})
    return figure


def _add_legend(figure: Any, has_others: bool) -> None:
    """What dots and lines mean."""
    from matplotlib.lines import Line2D

    dot = lambda mark, face, words: Line2D(
        [], [], marker=mark, color="0.4", mfc=face, ls="", label=words
    )
    line = lambda style, words: Line2D([], [], color="0.5", lw=1, ls=style, label=words)
    meanings = [
        dot("o", "0.4", "unbiased"),
        dot("o", "white", "biased"),
        *([dot("D", "0.4", "another objective")] if has_others else []),
        line("-", "frontier: none is both faster and less noisy"),
        line("--", "backpropagation"),
    ]
    figure.legend(handles=meanings, loc="outside lower center", ncols=5, fontsize=8, frameon=False)


def _add_names(figure: Any, axes: Any, points: dict[str, tuple[float, float]]) -> None:
    """The name of each point beside it, where it covers neither a point nor another name. One that
    is moved away has a line to its point."""
    from matplotlib.patheffects import withStroke
    from matplotlib.transforms import Bbox

    take_literally(figure)
    figure.draw_without_rendering()
    figure.set_layout_engine(None)  # all is in its place now
    frame, pixel = axes.get_window_extent(), figure.dpi / 72
    dots = [axes.transData.transform(point) for point in points.values()]
    taken = [Bbox.from_bounds(x - 4 * pixel, y - 4 * pixel, 8 * pixel, 8 * pixel) for x, y in dots]
    for name, point in sorted(points.items(), key=lambda entry: -entry[1][1]):
        text = axes.annotate(name, point, (0, 0), textcoords="offset points", fontsize=8, zorder=4)
        text.set_path_effects([withStroke(linewidth=2, foreground="white")])
        tries = []
        for across, up in OFFSETS:
            text.set(position=(across, up), ha="left" if across > 0 else "right", va="center")
            box = text.get_window_extent()
            outside = not (frame.x0 < box.x0 and box.x1 < frame.x1)
            covered = sum(box.overlaps(other) for other in taken) + outside
            tries.append((covered, across, up, box))
            if not covered:
                break
        _, across, up, box = min(tries, key=lambda found: found[0])
        text.set(position=(across, up), ha="left" if across > 0 else "right")
        taken.append(box)
        if abs(up) > 10:
            thin = {"arrowstyle": "-", "color": "0.6", "lw": 0.5, "shrinkA": 0, "shrinkB": 3}
            axes.annotate("", point, (across, up), textcoords="offset points", arrowprops=thin)


def place(row: Row) -> tuple[float, float]:
    """Time and noise."""
    return row.milliseconds, row.mean_noise or 0.0


def frontier(rows: list[Row]) -> list[Row]:
    """The methods that no other beats in both time and noise, the fastest first."""
    best: list[Row] = []
    for row in sorted(rows, key=place):
        if not best or place(row)[1] < place(best[-1])[1]:
            best.append(row)
    return best
