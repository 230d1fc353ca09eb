"""A report on disk: the page, the figures and the spreadsheet. The new one is complete before an
older one goes."""

import shutil
from collections.abc import Callable
from pathlib import Path

from ..errors import UserError
from ..files import move_directory, write_figure, write_whole
from .drawings import drawings
from .figures import draw
from .grouping import panels_of
from .page import page
from .reading import Collection
from .spreadsheet import results

MANIFEST = ".hnca-report"  # names what belongs to a report: nothing else is ever deleted


def write_report(
    collection: Collection, out: Path, say: Callable[[str], None] = lambda message: None
) -> None:
    """Writes a report in place of an older one, if there is any."""
    out = out.absolute()
    check_place(out)
    panels = panels_of(collection.runs)
    aside = out.with_name(f".{out.name}.aside")
    shutil.rmtree(aside, ignore_errors=True)
    (aside / "figures").mkdir(parents=True)
    figures = drawings(panels)
    for drawing in figures:
        say(f"drawing {drawing.title}")
        figure = draw(drawing)
        for ending, dpi in ((".png", 130), (".pdf", 300)):
            write_figure(aside / "figures" / f"{drawing.name}{ending}", figure, dpi=dpi)
    write_whole(aside / "results.csv", results(collection).encode())
    write_whole(aside / "index.html", page(collection, panels, figures, aside, out).encode())
    names = sorted(path.relative_to(aside).as_posix() for path in _files(aside))
    write_whole(aside / MANIFEST, "\n".join(names).encode())
    move_directory(aside, out)


def check_place(out: Path) -> None:
    """Refuses a directory with anything but an older report in it."""
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file: choose another -o")
    try:
        known = {out / name for name in (out / MANIFEST).read_text().split("\n")}
    except FileNotFoundError:
        known = set()
    strangers = sorted(_files(out) - known - {out / MANIFEST}) if out.exists() else []
    if strangers:
        raise UserError(f"{out} holds more than a report ({strangers[0].name}): choose another -o")


def _files(directory: Path) -> set[Path]:
    return {path for path in directory.rglob("*") if not path.is_dir()}
