"""The files of a comparison of methods: a figure, a spreadsheet, and everything as JSON."""

import csv
import io
from pathlib import Path
from typing import Any

from ...comparison import Comparison, Row
from ..files import write_figure, write_whole
from .labels import color


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
    from matplotlib.figure import Figure  # takes a while to import

    figure = Figure(figsize=(7.5, 5.5), layout="constrained")
    axes = figure.subplots()
    shown = [row for row in found.rows if row.mean_noise]
    for row in shown:
        face = color(row.name) if row.unbiased else "white"
        point = place(row)
        axes.scatter(*point, s=45, color=face, edgecolor=color(row.name), zorder=3)
        axes.annotate(row.name, point, xytext=(6, 4), textcoords="offset points", fontsize=8)
    if fair := [row for row in shown if row.unbiased]:
        edge = zip(*map(place, frontier(fair)), strict=True)
        axes.step(*edge, where="post", color="0.5", lw=1, zorder=1)
    axes.axvline(found.rows[-1].milliseconds, color="0.7", ls="--", lw=1)
    axes.annotate(
        "backpropagation",
        (found.rows[-1].milliseconds, 0.02),
        xycoords=("data", "axes fraction"),
        rotation=90,
        fontsize=7,
        color="0.5",
        ha="right",
    )
    axes.set(xscale="log", yscale="log", title=title)
    axes.set(xlabel="milliseconds a step", ylabel="noise: variance for a fixed example")
    axes.grid(alpha=0.25, which="both")
    axes.margins(0.12)
    note = "filled: unbiased, open: biased; the line: no method is both faster and less noisy"
    figure.supxlabel(note, fontsize=8, color="0.4")
    return figure


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
