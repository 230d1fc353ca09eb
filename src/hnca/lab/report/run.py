"""A run as a report sees it: what was asked for, what was measured, and how far it is."""

from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..experiments import VAE, AbstractExperiment


class Curve(NamedTuple):
    """A metric, where it was measured."""

    epochs: np.ndarray  # [E], from 1
    values: np.ndarray  # [E]


@dataclass(frozen=True, eq=False)
class Run:
    """A run that can be read."""

    path: Path
    experiment: AbstractExperiment
    data: str
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
        return f"{self.done} of {self.planned or 'unknown'} epochs"

    @property
    def seed(self) -> int:
        """Of everything random."""
        return self.experiment.seed

    @cached_property
    def settings(self) -> dict[str, Any]:
        """All that has a part in the result, but for the seed and the data; one way to say what
        can be said in several ways (--layers and --units, --epochs and --updates)."""
        settings = asdict(self.experiment) | {"epochs": max(self.done, self.planned or 0)}
        for name in ("seed", "dataset", "updates"):
            del settings[name]
        if isinstance(self.experiment, VAE):
            sizes = self.experiment.sizes
            settings |= {"layers": len(sizes), "units": sizes}
        return settings

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


def identity(run: Run) -> str:
    """What runs must have in common for a mean over them: everything but the seed."""
    return repr((run.experiment.name, run.data, run.fingerprint, run.settings))
