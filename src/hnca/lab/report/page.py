"""A report on disk: the page, which needs no other file to be read, the figures and the
spreadsheets. The new one is complete before an older one goes."""

import base64
from collections import Counter
from collections.abc import Callable
from datetime import date
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import UserError
from ..files import whole_directory, write_figure, write_whole
from . import spreadsheets, tables
from .figures import START, Drawing, draw_figure, drawings
from .groups import Group, MeanCurve, Panel, panels_of, scaled
from .labels import color, dashes, decimals, objective_words, words
from .reading import Collection, Duplicate
from .record import RunRecord

MANIFEST = ".hnca-report"  # names what belongs to a report: nothing else is ever deleted
POINTS = 240  # of a curve, at most
HIDDEN = ("epoch", "step", "seconds")
CODE = ("style.css", "curves.js", "sorting.js")
CAPTION = (
    "{} by epochs, thin while training and thick in tests{}; the natural logarithm of the mean "
    "gradient variance; and {} by seconds, each run at the median pace of its epochs, which "
    "compare on one machine only{}. The last values of training stand beside."
)


def write_report(
    collection: Collection, out: Path, say: Callable[[str], None] = lambda message: None
) -> None:
    """Writes a report in place of an older one, if there is any."""
    out = out.absolute()
    check_place(out)
    with whole_directory(out) as aside:
        _fill(aside, collection, out, say)


def _fill(aside: Path, collection: Collection, out: Path, say: Callable[[str], None]) -> None:
    """All files of a report."""
    panels = panels_of(collection.runs)
    (aside / "figures").mkdir()
    figures = drawings(panels)
    for drawing in figures:
        say(f"drawing {drawing.title}")
        figure = draw_figure(drawing)
        for ending, dpi in ((".png", 130), (".pdf", 300)):
            write_figure(aside / "figures" / f"{drawing.name}{ending}", figure, dpi=dpi)
        narrow = aside / "figures" / f"{drawing.name}-narrow.png"
        write_figure(narrow, draw_figure(drawing, narrow=True), dpi=150)
    write_whole(aside / "results.csv", spreadsheets.results(collection).encode())
    write_whole(aside / "epochs.csv", spreadsheets.epochs(collection).encode())
    write_whole(aside / "index.html", page(collection, panels, figures, aside, out).encode())
    names = sorted(path.relative_to(aside).as_posix() for path in _files_in(aside))
    write_whole(aside / MANIFEST, "\n".join(names).encode())


def check_place(out: Path) -> None:
    """Refuses a directory with anything but an older report in it."""
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file: choose another -o")
    try:
        known = {out / name for name in (out / MANIFEST).read_text("utf-8").split("\n")}
    except FileNotFoundError:
        known = set()
    strangers = sorted(_files_in(out) - known - {out / MANIFEST}) if out.exists() else []
    if strangers:
        raise UserError(f"{out} holds more than a report ({strangers[0].name}): choose another -o")


def _files_in(directory: Path) -> set[Path]:
    return {path for path in directory.rglob("*") if not path.is_dir()}


class Picture(NamedTuple):
    """A figure, as the page holds it."""

    name: str
    title: str
    about: str
    png: str  # base64
    narrow: str  # the same, for a narrow screen


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
    code = {name: _template(name) for name in CODE}
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
        runs=tables.runs_table(collection, panels, out),
        settings=tables.settings_tables(panels),
        versions=tables.versions_table(collection.runs),
    )


def _template(name: str) -> str:
    return (files("hnca.lab.report") / "templates" / name).read_text("utf-8")


def attention(collection: Collection) -> list[str]:
    """A line for each run that is in no mean, and why."""
    unfinished = [run for run in collection.runs if not run.complete]
    return [
        *(f"{path}: damaged: {reason}" for path, reason in collection.damaged),
        *(f"{run.path}: unfinished: {run.progress}" for run in unfinished),
        *map(_duplicate, collection.duplicates),
    ]


def _duplicate(each: Duplicate) -> str:
    words = f"{each.run.path}: duplicate of {each.instead.path}"
    if each.disagreement:
        words += (
            f", with DIFFERENT results, though settings and seed are the same: {each.disagreement}"
        )
    return words


def _counts(collection: Collection) -> dict[str, Any]:
    count = Counter(map(tables.status, collection.runs))
    count |= {"duplicate": len(collection.duplicates), "damaged": len(collection.damaged)}
    return {"all": sum(count.values()), **{word: n for word, n in count.items() if n}}


def _picture(aside: Path, drawing: Drawing) -> Picture:
    png, narrow = (
        base64.b64encode((aside / "figures" / f"{drawing.name}{ending}.png").read_bytes()).decode()
        for ending in ("", "-narrow")
    )
    part = f"first {100 // START}% of {START} epochs or more"
    cut = f", on an axis that leaves out the {part}" if drawing.cut else ""
    what = objective_words(drawing.measure)
    runs = [run for row in drawing.rows for group in row.groups for run in group.runs]
    machines = dict.fromkeys(run.machine for run in runs if run.machine)
    where = f" (here: {' / '.join(machines)})" if machines else ""
    about = CAPTION.format(what, cut, what, where)
    return Picture(drawing.name, drawing.title, about, png, narrow)


# The curves to explore: in as few digits and points as can be seen


def curves_data(panels: list[Panel]) -> list[dict[str, Any]]:
    """For each panel its metrics, and for each metric the lines."""
    return [{"title": panel.title, "metrics": _metrics(panel)} for panel in panels]


def _metrics(panel: Panel) -> list[dict[str, Any]]:
    """In the order of the page's menu: the objective first, then as they were written, which is
    the order of the network's layers."""
    runs = [run for group in panel.groups for run in group.runs + group.unfinished]
    names = dict.fromkeys(name for run in runs for name in run.curves if name not in HIDDEN)
    first = [f"train_{panel.key.measure}", f"test_{panel.key.measure}", "test_bound"]
    order = sorted(names, key=lambda name: [*first, name].index(name))
    metrics = []
    for name in order:
        lines = [line for group in panel.groups for line in _lines(group, name)]
        most = max((abs(value) for line in lines for value in line["mean"]), default=0.0)
        metrics.append({"name": words(name), "decimals": decimals(name, most), "lines": lines})
    return metrics


def _lines(group: Group, metric: str) -> list[dict[str, Any]]:
    """The mean of the complete runs, and every unfinished run by itself."""
    lines = []
    if curve := group.curve(metric):
        seconds = group.elapsed(curve.epochs)
        lines.append(_line(group, group.label, curve, seconds))
    for run in group.unfinished:
        if metric in run.curves:
            lines.append(_unfinished(group, run, metric))
    return lines


def _unfinished(group: Group, run: RunRecord, metric: str) -> dict[str, Any]:
    curve = run.curves[metric]
    label = f"{group.label}, seed {run.seed} (unfinished: {run.progress})"
    values = scaled(metric, curve)
    alone = MeanCurve(curve.epochs, values, None, values[None])
    return _line(group, label, alone, run.elapsed(curve.epochs)) | {"thin": True}


def _line(group: Group, label: str, curve: MeanCurve, seconds: np.ndarray) -> dict[str, Any]:
    """Where there is no band, the seeds themselves, if there are several."""
    kept, count = thinned(len(curve.epochs)), len(curve.seeds)
    each = curve.seeds if count > 1 and curve.band is None else ()
    return {
        "label": label,
        "seeds": count,
        "color": color(group.method),
        "dashes": dashes(group.variant),
        "epochs": curve.epochs[kept].tolist(),
        "seconds": _rounded(seconds[kept]),
        "mean": _rounded(curve.mean[kept]),
        "half": None if curve.half is None else _rounded(curve.half[kept]),
        "band": curve.band and [_rounded(edge[kept]) for edge in curve.band],
        "each": [_rounded(values[kept]) for values in each],
    }


def thinned(count: int) -> np.ndarray:
    """Which points to show: the first, the last, and others evenly between them."""
    return np.unique(np.linspace(0, count - 1, min(count, POINTS)).round().astype(int))


def _rounded(values: np.ndarray) -> list[float]:
    return [float(f"{value:.5g}") for value in values]
