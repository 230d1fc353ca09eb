"""A run under way: its files, what was measured so far, and the state to go on from."""

import dataclasses
import json
import platform
from importlib.metadata import version
from typing import Any

import jax
import jax.numpy as jnp

from ...kernels import native
from ..experiments import AbstractExperiment, Data, short_task, source_of
from ..files import write_json
from . import checkpoint, hosts
from .curves import draw_curves
from .devices import Devices
from .directory import RunDirectory
from .programs import TrainState

PACKAGES = ("hnca", "jax", "jaxlib", "equinox", "optax", "numpy")


class Run:
    """An experiment, that is, one seed of it, and its directory. Where several processes train
    together, they all have the same entries and state; the first one's are on the disk."""

    state: TrainState

    def __init__(self, experiment: AbstractExperiment, directory: RunDirectory):
        self.experiment, self.directory = experiment, directory
        self.entries: list[dict[str, Any]] = []

    @property
    def done(self) -> int:
        """Epochs."""
        return len(self.entries)

    def open(self, config: dict[str, Any], start: TrainState, epochs: int) -> None:
        """Takes it from where it was left, or from the start. Only epochs that were both measured
        and saved count; what came after will be measured again. One that has all its `epochs`
        behind it is left as it is."""
        self.state = start
        self.entries = hosts.from_first(lambda: self._read(config, epochs))
        self.state = hosts.state_of_first(self.state)

    def _read(self, config: dict[str, Any], epochs: int) -> list[dict[str, Any]]:
        self.directory.check(config)
        entries = self.directory.read_metrics()
        saved = checkpoint.restore(self.directory.checkpoints, self.state, len(entries))
        self.state, done = saved or (self.state, 0)
        if done < epochs:
            self.directory.begin(config)
            self.directory.write_metrics(entries[:done])
        return entries[:done]

    def record(self, entry: dict[str, Any]) -> None:
        """Writes what an epoch brought: the entry and the state."""
        hosts.from_first(lambda: self._write(entry))
        self.entries.append(entry)

    def _write(self, entry: dict[str, Any]) -> None:
        self.directory.append(entry)
        checkpoint.save(self.directory.checkpoints, self.state, entry["epoch"])

    def draw(self) -> None:
        """Draws the curves so far. Waits for no other process: it may have been left behind."""
        if hosts.is_first():
            draw_curves(self.entries, self.experiment, self.directory.curves)

    def summary(self) -> dict[str, Any] | None:
        """What was written at the end, if that was after these epochs."""
        summary = hosts.from_first(self.directory.read_summary)
        return summary if summary.get("epochs") == self.done else None

    def finish(self, tested: dict[str, float]) -> dict[str, Any]:
        """Draws the curves and writes the summary, with a last test if it was not measured."""
        summary = {
            "title": self.experiment.title,
            "epochs": self.done,
            "seconds": sum(entry["seconds"] for entry in self.entries),
            "final": tested | self.entries[-1],
        }
        hosts.from_first(lambda: self._conclude(summary))
        return summary

    def _conclude(self, summary: dict[str, Any]) -> None:
        self.draw()
        write_json(self.directory.summary, summary)


def configuration(
    experiment: AbstractExperiment, data: Data, command: str | None, devices: Devices
) -> dict[str, Any]:
    """Everything needed to run it again, and to report on it without the experiment's class."""
    kind = type(experiment)
    source, dtype = source_of(kind), jnp.zeros(()).dtype
    record = {
        "task": short_task(kind),
        "title": experiment.title,
        "measure": experiment.measure,
        "told": experiment.told,
        "settings": dataclasses.asdict(experiment),
        "data": {"name": data.name, "fingerprint": data.fingerprint, "source": data.source},
        "command": command,
        "versions": {"python": platform.python_version()}
        | {package: version(package) for package in PACKAGES}
        | ({"experiment": source} if source else {}),
        "device": f"{devices}, {dtype}",
        "kernel": native.kernel_of(dtype, jax.default_backend()),
    }
    return json.loads(json.dumps(record))  # as it will be read again: lists for tuples


def in_common(config: dict[str, Any]) -> dict[str, Any]:
    """What must be the same in all processes of a run."""
    same = {name: config[name] for name in ("task", "settings", "versions", "device")}
    return same | {"fingerprint": config["data"]["fingerprint"]}
