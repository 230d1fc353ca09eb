"""The paper's numbers, from `paper.toml`, and ours beside them."""

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from ..experiments import VAE
from ..words import counted
from .groups import Group, Interval, Panel, interval, labels
from .labels import ABLATIONS, rank, said


class PublishedBounds(NamedTuple):
    """The paper's table of test bounds."""

    source: str
    about: str
    task: str
    dataset: str
    fingerprint: str
    samples: int
    epochs: int
    values: dict[tuple[str, int | None], Interval]  # by method and layers


@cache
def published_bounds() -> PublishedBounds:
    """As they stand in the paper."""
    record = tomllib.loads((files("hnca.lab.report") / "paper.toml").read_text("utf-8"))
    table: dict[str, Any] = record["bounds"]
    values: dict[tuple[str, int | None], Interval] = {
        (method, int(layers)): Interval(row[layers][0], row[layers][1], table["seeds"])
        for method, row in table["values"].items()
        for layers in row
        if layers != "name"
    }
    source = f"{record['source']['paper']}: {table['where']}"
    names = ("about", "task", "dataset", "fingerprint", "samples", "epochs")
    same = {name: table[name] for name in names}
    return PublishedBounds(source=source, values=values, **same)


class Bound(NamedTuple):
    """What a group reached, and how that was measured."""

    interval: Interval
    samples: int
    source: str


class Comparison(NamedTuple):
    """A method for a depth: ours, the paper's, or both."""

    data: str
    layers: int | None
    method: str
    label: str
    epochs: int | None
    ours: Bound | None
    paper: Interval | None
    differences: list[str]  # between our settings and the paper's

    @property
    def compares(self) -> bool:
        """Whether there are two numbers to put side by side."""
        return self.ours is not None and self.paper is not None

    @property
    def difference(self) -> float | None:
        """How much better ours is."""
        return self.ours.interval.mean - self.paper.mean if self.ours and self.paper else None

    @property
    def verdict(self) -> str:
        """Whether the two agree, as `Interval.widened` says, or why that cannot be said."""
        if self.ours is None:
            return "no complete run"
        if self.paper is None:
            return "not in the paper"
        if self.differences:
            return f"not comparable: {', '.join(self.differences)}"
        room = self.paper.widened(self.ours.interval.n)
        agree = abs(self.difference or 0.0) <= room
        return f"{'yes' if agree else 'NO'}: {'within' if agree else 'beyond'} ± {room:.2f}"


def compare_bounds(panels: list[Panel]) -> list[Comparison]:
    """Every group of a VAE: first those in the paper's settings, then others that the paper has a
    number for. Last the paper's numbers for which there is no run in its settings, if there are
    any such groups."""
    published = published_bounds()
    ours = [
        (panel, group)
        for panel in panels
        if panel.key.task == published.task
        for group in panel.groups
    ]
    told = labels([group for _, group in ours])
    rows = [
        _compared(panel, group, label, published)
        for (panel, group), label in zip(ours, told, strict=True)
    ]
    order = lambda row: (
        *(not row.compares, bool(row.differences)),
        *(row.data, row.layers, rank(row.method), row.label),
    )
    rows.sort(key=order)
    if not any(row.compares for row in rows):
        return rows
    run = {(row.method, row.layers) for row in rows if row.compares and not row.differences}
    missing = [
        Comparison(published.dataset, layers, method, method, None, None, paper, [])
        for (method, layers), paper in published.values.items()
        if (method, layers) not in run
    ]
    return rows + sorted(missing, key=order)


def _compared(panel: Panel, group: Group, label: str, published: PublishedBounds) -> Comparison:
    """Other images are another task, whatever they are called: the paper has no number for it."""
    key, ours, paper = panel.key, _bound(group), None
    if key.fingerprint == published.fingerprint and not group.ablated:
        paper = published.values.get((group.method, key.layers))
    length = group.settings["epochs"]
    found = _differences(group, ours, published) if ours and paper else []
    names = (panel.data, key.layers, group.method, label)
    return Comparison(*names, length, ours, paper, found)


def _bound(group: Group) -> Bound | None:
    """By `hnca evaluate` if all runs were evaluated alike, else by the test after training."""
    evaluations = [run.evaluation for run in group.runs]
    alike = {(each.get("samples"), _examples(each)) for each in evaluations}
    if len(alike) == 1 and all("test_bound" in each for each in evaluations):
        means = interval([each["test_bound"] for each in evaluations])
        return Bound(means, evaluations[0]["samples"], "hnca evaluate")
    final = group.final("test_bound")
    return final and Bound(final, group.settings["eval_samples"], "test after training")


def _examples(evaluation: dict[str, Any]) -> Any:
    """How many of them were tested; older runs say `images`."""
    return evaluation.get("examples", evaluation.get("images"))


def _differences(group: Group, ours: Bound, published: PublishedBounds) -> list[str]:
    """The settings that are not the paper's: those of the package's defaults are."""
    settings = group.settings
    paper: dict[str, Any] = vars(VAE()) | {"units": 200}
    free = {"estimator", "layers", "epochs", "eval_every", "eval_samples", *ABLATIONS}
    found = [
        said(name, value)
        for name, value in settings.items()
        if name not in free and value != paper[name]
    ]
    if settings["epochs"] != published.epochs:
        found.insert(0, f"{settings['epochs']} of {counted(published.epochs, 'epoch')}")
    if ours.samples != published.samples:
        found.append(f"{ours.samples} samples instead of {published.samples}")
    return found
