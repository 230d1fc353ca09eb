"""`index.html`: everything on one page that needs no other file to be read."""

import base64
from collections import Counter
from datetime import date
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from . import inventory, tables
from .drawings import Drawing
from .grouping import Panel
from .interactive import POINTS, curves_data
from .reading import Collection


class Picture(NamedTuple):
    """A figure, as the page holds it."""

    name: str
    title: str
    about: str
    png: str  # base64


def page(
    collection: Collection, panels: list[Panel], figures: list[Drawing], aside: Path, out: Path
) -> str:
    """The page's text, with the figures that were drawn aside, and links as from `out`."""
    from jinja2 import Environment, PackageLoader

    environment = Environment(
        loader=PackageLoader("hnca.lab.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    code = {name: (files("hnca.lab.report") / "templates" / name).read_text() for name in CODE}
    return environment.get_template("page.html").render(
        code=code,
        count=_counts(collection),
        version=version("hnca"),
        today=date.today().isoformat(),
        attention=attention(collection),
        lonely=any(len(group.runs) == 1 for panel in panels for group in panel.groups),
        curves=curves_data(panels),
        points=POINTS,
        figures=[_picture(aside, drawing) for drawing in figures],
        bounds=tables.bounds_table(panels),
        finals=tables.final_tables(panels),
        runs=inventory.runs_table(collection, out),
        settings=inventory.settings_tables(panels),
        versions=inventory.versions_table(collection.runs),
    )


_CAPTION = (
    "on the left the {} while training, dotted where there is a solid line for the test images{}; "
    "on the right the natural logarithm of the mean gradient variance. Last values stand beside."
)
CAPTIONS = {
    "accuracy": _CAPTION.format("accuracy", ""),
    "elbo": _CAPTION.format("ELBO", ", on an axis that leaves out the first 5% of epochs"),
}
CODE = ("style.css", "curves.js", "sorting.js")


def attention(collection: Collection) -> list[str]:
    """A line for each run that is in no mean, and why."""
    unfinished = [run for run in collection.runs if not run.complete]
    return [
        *(f"{path}: damaged: {reason}" for path, reason in collection.damaged),
        *(f"{run.path}: unfinished: {run.progress}" for run in unfinished),
        *(f"{run.path}: duplicate of {other.path}" for run, other in collection.duplicates),
    ]


def _counts(collection: Collection) -> dict[str, Any]:
    count = Counter(map(inventory.status, collection.runs))
    count |= {"duplicate": len(collection.duplicates), "damaged": len(collection.damaged)}
    return {"all": sum(count.values()), **{word: n for word, n in count.items() if n}}


def _picture(aside: Path, drawing: Drawing) -> Picture:
    png = base64.b64encode((aside / "figures" / f"{drawing.name}.png").read_bytes()).decode()
    return Picture(drawing.name, drawing.title, CAPTIONS[drawing.measure], png)
