"""Which runs belong together: in a mean those that differ in nothing but the seed, in a panel the
methods for one network, one data set and one length of training."""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from ..words import counted
from .labels import ABLATIONS, VARIANCE, color, possible, rank, said
from .record import Curve, RunRecord, identity

CONFIDENCE = 0.95
BANDED = 3  # seeds that make a band
LEAST = 1e-45  # what has no variance still has a place on a logarithmic axis


class Interval(NamedTuple):
    """A mean, and half the width of its 95% confidence interval: none of a single value."""

    mean: float
    half: float | None
    n: int

    def widened(self, n: int) -> float:
        """How far the mean of n more values of the same kind may lie from this one, in 95% of
        cases. A mean of n has the variance s^2/n, so that of a difference is s^2/self.n + s^2/n."""
        return (self.half or 0.0) * math.sqrt(1 + self.n / n)

    def shown(self, decimals: int) -> str:
        """For people."""
        mean = f"{self.mean:.{decimals}f}"
        return mean if self.half is None else f"{mean} ± {self.half:.{decimals}f}"


def interval(values: list[float]) -> Interval:
    """Of independent values, by Student's t."""
    mean, half = band(np.array(values, dtype=float))
    return Interval(float(mean), None if half is None else float(half), len(values))


def band(values: np.ndarray) -> tuple[Any, Any]:
    """The mean over the first axis, and half the width of its confidence interval, if any."""
    n = len(values)
    if n == 1:
        return values[0], None
    from scipy.special import stdtrit  # the quantile function of Student's t

    t = stdtrit(n - 1, (1 + CONFIDENCE) / 2)
    return values.mean(axis=0), t * values.std(axis=0, ddof=1) / np.sqrt(n)


class MeanCurve(NamedTuple):
    """The mean of a metric over seeds at each epoch, and its confidence band."""

    epochs: np.ndarray  # [E]
    mean: np.ndarray  # [E]
    half: np.ndarray | None  # [E]; a single run has none
    seeds: np.ndarray  # [S, E]: what the mean is of
    band: tuple[np.ndarray, np.ndarray] | None = None
    """Its edges [E], no further than is possible. None of fewer than `BANDED` seeds: the interval
    of two reaches six times as far as they differ, so the two themselves are drawn."""


@dataclass
class Group:
    """Runs that differ in their seed only. Means are over the complete ones."""

    runs: list[RunRecord]
    unfinished: list[RunRecord]
    label: str = ""
    """The method, and what else tells the group from the others of its figure."""
    variant: int = 0
    """The number of this label among those of the same colour in its figure."""

    @property
    def any(self) -> RunRecord:
        """One of the runs, for what they have in common."""
        return (self.runs or self.unfinished)[0]

    @property
    def method(self) -> str:
        return self.any.method

    @property
    def settings(self) -> dict[str, Any]:
        return self.any.settings

    @property
    def ablated(self) -> bool:
        """Whether a part of HNCA is switched off."""
        return not all(self.settings.get(name, True) for name in ABLATIONS)

    def curve(self, metric: str) -> MeanCurve | None:
        """The mean of a metric over the complete runs, if they have it."""
        if not self.runs or not all(metric in run.curves for run in self.runs):
            return None
        curves = [run.curves[metric] for run in self.runs]
        epochs = reduce(np.intersect1d, [curve.epochs for curve in curves])
        values = np.stack([scaled(metric, curve, epochs) for curve in curves])
        mean, half = band(values)
        if len(values) < BANDED:
            return MeanCurve(epochs, mean, half, values)
        edges = np.clip((mean - half, mean + half), *possible(metric))
        return MeanCurve(epochs, mean, half, values, (edges[0], edges[1]))

    def elapsed(self, epochs: np.ndarray) -> np.ndarray:
        """Seconds from the start to the end of each of these epochs, at the runs' own paces: the
        mean over the complete ones."""
        return np.mean([run.elapsed(epochs) for run in self.runs], axis=0)

    def final(self, metric: str) -> Interval | None:
        """The mean of a metric's last value over the complete runs, if they have it."""
        if not self.runs or not all(metric in run.final for run in self.runs):
            return None
        return interval([float(_logged(metric, run.final[metric])) for run in self.runs])


class PanelKey(NamedTuple):
    """What the groups of a panel share. Runs of other lengths are in panels of their own."""

    task: str
    data: str
    fingerprint: str
    layers: int | None  # of stochastic units
    epochs: int
    measure: str  # what the objective's mean is called

    @property
    def figure(self) -> tuple[str, ...]:
        """What the panels of a figure share."""
        return self.task, self.data, self.fingerprint, self.measure


@dataclass
class Panel:
    """The methods for a network on a data set."""

    key: PanelKey
    groups: list[Group] = field(default_factory=list)
    data: str = ""
    """The data set's name, told apart from others that have the same."""

    @property
    def title(self) -> str:
        """What all of its groups have in common, in a few words."""
        key = self.key
        layers = counted(key.layers, "layer") if key.layers else ""
        length = counted(key.epochs, "epoch")
        return ", ".join(filter(None, [key.task, layers, self.data, length]))


def panels_of(runs: list[RunRecord]) -> list[Panel]:
    """Runs by panel and group, in the order of task, data, depth, length and method."""
    groups: dict[str, Group] = {}
    for run in sorted(runs, key=lambda run: run.seed):
        group = groups.setdefault(identity(run), Group([], []))
        (group.runs if run.complete else group.unfinished).append(run)
    by_key: dict[PanelKey, Panel] = {}
    for group in groups.values():
        key = _panel_key(group.any)
        by_key.setdefault(key, Panel(key)).groups.append(group)
    panels = [by_key[key] for key in sorted(by_key, key=_order)]
    figures: dict[tuple[str, ...], list[Panel]] = defaultdict(list)
    for panel in panels:
        figures[panel.key.figure].append(panel)
    for shown_together in figures.values():
        _name_groups(shown_together)
    for panel in panels:
        same = {key.fingerprint for key in by_key if key.data == panel.key.data}
        mark = f" {panel.key.fingerprint[:6]}" if len(same) > 1 else ""
        panel.data = f"{panel.key.data}{mark}"
    return panels


def scaled(metric: str, curve: Curve, epochs: np.ndarray | None = None) -> np.ndarray:
    """The values of a curve as they are drawn, at some epochs or all."""
    values = curve.values if epochs is None else curve.values[np.isin(curve.epochs, epochs)]
    return _logged(metric, values)


def _logged(metric: str, values: Any) -> Any:
    """Variances by their natural logarithm, as in the paper."""
    return np.log(np.maximum(values, LEAST)) if metric.startswith(VARIANCE) else values


def _panel_key(run: RunRecord) -> PanelKey:
    epochs = run.settings["epochs"]
    return PanelKey(run.task, run.data, run.fingerprint, run.layers, epochs, run.measure)


def _order(key: PanelKey) -> tuple:
    return key._replace(layers=key.layers or 0)


def _name_groups(panels: list[Panel]) -> None:
    """Labels, an order, and numbers for those of the same colour. The panels have one legend: a
    label means the same in all of them, and has the same number."""
    groups = [group for panel in panels for group in panel.groups]
    for group, label in zip(groups, labels(groups, brief=True), strict=True):
        group.label = label
    order = lambda group: (rank(group.method), group.ablated, group.label)
    for panel in panels:
        panel.groups.sort(key=order)
    numbers: dict[str, dict[str, int]] = defaultdict(dict)  # by colour and label
    for group in sorted(groups, key=order):
        known = numbers[color(group.method)]
        group.variant = known.setdefault(group.label, len(known))


def labels(groups: Sequence[Group], brief: bool = False) -> list[str]:
    """For each group its method, and every setting in which they differ; but for epochs and layers,
    if known, which titles and columns tell. In brief, what more than half of them have in common
    goes without saying."""
    apart = {"epochs", "layers"} if all(group.any.layers for group in groups) else {"epochs"}
    names = dict.fromkeys(name for group in groups for name in group.settings if name not in apart)
    values = {name: [repr(group.settings.get(name)) for group in groups] for name in names}
    usual = {name: _usual(each, brief) for name, each in values.items()}
    return [_label(group, usual) for group in groups]


def _label(group: Group, usual: dict[str, str | None]) -> str:
    """The method, and every setting that is not the usual one."""
    told = ("estimator",) if "estimator" in group.settings else group.any.asked.told
    words = [
        said(name, group.settings[name])
        for name, value in usual.items()
        if name in group.settings and name not in told
        if name in ABLATIONS or repr(group.settings[name]) != value
    ]
    return ", ".join([group.method, *filter(None, words)])


def _usual(values: list[str], brief: bool) -> str | None:
    """What all of them are; in brief, more than half."""
    [(value, count)] = Counter(values).most_common(1)
    enough = len(values) // 2 + 1 if brief else len(values)
    return value if count >= enough else None
