"""A run as the report sees it: what was asked for, what was measured, and how far it is."""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..words import counted

UNSHARED = ("seed", "dataset", "updates")  # settings that are told in other ways


class Curve(NamedTuple):
    """A metric, where it was measured."""

    epochs: np.ndarray  # [E], from 1
    values: np.ndarray  # [E]


class Asked(NamedTuple):
    """What was asked for, and how the experiment calls it."""

    task: str
    title: str
    """Task, size and method in a few words."""
    told: tuple[str, ...]
    """The settings that the title tells."""
    measure: str
    """What the objective's mean is called: `accuracy`, say, for `train_accuracy`."""
    layers: int | None
    """Of stochastic units, if that is known."""
    settings: dict[str, Any]


@dataclass(frozen=True, eq=False)
class RunRecord:
    """A run that can be read."""

    path: Path
    asked: Asked
    data: str
    """The name of the data set; empty if the run had none."""
    fingerprint: str
    environments: list[dict[str, Any]]
    """Versions of the software, and the device; the latest, then those in which it was before."""
    curves: dict[str, Curve]
    summary: dict[str, Any]
    done: int
    """Epochs that were measured."""
    planned: int | None
    """Epochs that were asked for, if that can be told yet."""

    @property
    def complete(self) -> bool:
        """Whether the last epoch is done, and its summary written."""
        enough = self.planned is not None and self.done >= self.planned
        return enough and self.summary.get("epochs") == self.done

    @property
    def progress(self) -> str:
        """How far it is."""
        if self.done == self.planned:
            return "its last test is missing"
        planned = counted(self.planned, "epoch") if self.planned else "unknown epochs"
        return f"{self.done} of {planned}"

    @property
    def pace(self) -> float | None:
        """Seconds of an epoch: the median, which a run that was stopped for a while, or a machine
        that was busy, does not change."""
        return float(np.median(self.curves["seconds"].values)) if self.done else None

    def elapsed(self, epochs: np.ndarray) -> np.ndarray:
        """Seconds from the start to the end of each of these epochs, at this pace."""
        return epochs * (self.pace or 0.0)

    @property
    def machine(self) -> str:
        """What it was trained on, as far as the run says so; the latest first."""
        told = [(each.get("machine"), each.get("device")) for each in self.environments]
        each = [", ".join(str(part) for part in parts if part) for parts in told]
        return "; before, ".join(dict.fromkeys(filter(None, each)))

    @property
    def task(self) -> str:
        return self.asked.task

    @property
    def measure(self) -> str:
        return self.asked.measure

    @property
    def layers(self) -> int | None:
        return self.asked.layers

    @property
    def seed(self) -> int:
        """Of everything random."""
        return self.asked.settings["seed"]

    @property
    def method(self) -> str:
        """The estimator; what the title says where there is no such setting."""
        return str(self.asked.settings.get("estimator") or self.asked.title)

    @cached_property
    def settings(self) -> dict[str, Any]:
        """All that has a part in the result, but for the seed and the data. --epochs and --updates
        are two ways to say the same."""
        settings = self.asked.settings | {"epochs": max(self.done, self.planned or 0)}
        return {name: value for name, value in settings.items() if name not in UNSHARED}

    @property
    def final(self) -> dict[str, Any]:
        """The last measurements; those of a complete run include a test."""
        if self.complete:
            return self.summary["final"]
        return {name: float(curve.values[-1]) for name, curve in self.curves.items()}

    @property
    def evaluation(self) -> dict[str, Any]:
        """What `hnca evaluate` measured, unless training went on since."""
        evaluation = self.summary.get("evaluation", {})
        return evaluation if evaluation.get("epoch") == self.done else {}


def identity(run: RunRecord) -> str:
    """What runs must have in common for a mean over them: everything but the seed."""
    shared = (run.task, run.measure, run.data, run.fingerprint, run.settings)
    return json.dumps(shared, sort_keys=True, default=str)
