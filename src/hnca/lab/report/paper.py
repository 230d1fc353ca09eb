"""The numbers that the paper prints: `paper.toml`."""

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from .statistics import Interval


class PublishedBounds(NamedTuple):
    """The paper's table of test bounds."""

    source: str
    about: str
    task: str
    dataset: str
    fingerprint: str
    samples: int
    epochs: int
    values: dict[tuple[str, int], Interval]  # by method and layers


@cache
def published_bounds() -> PublishedBounds:
    """As they stand in the paper."""
    record = tomllib.loads((files("hnca.lab.report") / "paper.toml").read_text())
    table: dict[str, Any] = record["bounds"]
    values = {
        (estimator, int(layers)): Interval(row[layers][0], row[layers][1], table["seeds"])
        for estimator, row in table["values"].items()
        for layers in row
        if layers != "name"
    }
    source = f"{record['source']['paper']}: {table['where']}"
    names = ("about", "task", "dataset", "fingerprint", "samples", "epochs")
    same = {name: table[name] for name in names}
    return PublishedBounds(source=source, values=values, **same)
