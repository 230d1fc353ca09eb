"""A run under way: its files, what was measured so far, and the state to go on from."""

import dataclasses
import json
import platform
import re
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from ...kernels import native
from ..cores import computing_cores
from ..experiments import AbstractExperiment, Data, short_task, source_of
from ..files import write_json
from ..words import counted
from . import checkpoint, hosts
from .curves import draw_curves
from .devices import Devices
from .directory import OWN_FILE, Ledger, RunDirectory
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
        self.directory.check(config, self.experiment.free, default_settings(self.experiment))
        config = self.directory.identified(config)
        self.directory.read_summary()  # what cannot be read is refused now, not after training
        entries = self.directory.read_metrics()
        belongings = Ledger(config).add_all(entries)
        saved = checkpoint.restore(self.directory.checkpoints, self.state, belongings)
        self.state, done = saved or (self.state, 0)
        self._ledger = Ledger(config)
        self._ledger.add_all(entries[:done])
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
        belonging = self._ledger.add(entry)
        checkpoint.save(self.directory.checkpoints, self.state, entry["epoch"], belonging)

    def draw(self, tested: dict[str, float] | None = None) -> None:
        """Draws the curves so far, with a last test if it is not among the entries. Waits for no
        other process: it may have been left behind."""
        if hosts.is_first():
            entries = [*self.entries[:-1], *(each | (tested or {}) for each in self.entries[-1:])]
            draw_curves(entries, self.experiment, self.directory.curves)

    def summary(self) -> dict[str, Any] | None:
        """What was written at the end, if that was after these epochs, and of this run."""
        summary = hosts.from_first(self.directory.read_summary)
        final, last = summary.get("final"), self.entries[-1]
        same = isinstance(final, dict) and final | last == final
        return summary if same and summary.get("epochs") == self.done else None

    def finish(self, tested: dict[str, float]) -> dict[str, Any]:
        """Draws the curves and writes the summary, with a last test if it was not measured."""
        summary = {
            "title": self.experiment.title,
            "epochs": self.done,
            "seconds": sum(entry["seconds"] for entry in self.entries),
            "final": tested | self.entries[-1],
        }
        hosts.from_first(lambda: self._conclude(summary, tested))
        return summary

    def _conclude(self, summary: dict[str, Any], tested: dict[str, float]) -> None:
        self.draw(tested)
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
        | ({OWN_FILE: source} if source else {}),
        "device": f"{devices}, {dtype}",
        "machine": machine(),
        "kernel": native.kernel_of(dtype, jax.default_backend()),
    }
    return _as_read(record)


def default_settings(experiment: AbstractExperiment) -> dict[str, Any]:
    """What the settings are that a `config.json` of an earlier version does not know."""
    fields = dataclasses.fields(experiment)
    has = lambda field: field.default is not dataclasses.MISSING
    return _as_read({field.name: field.default for field in fields if has(field)})


def _as_read(record: dict[str, Any]) -> dict[str, Any]:
    """As it will be read again: lists for tuples."""
    return json.loads(json.dumps(record))


def machine() -> str:
    """The processor, and how many of its cores are used: what seconds depend on."""
    name = platform.processor() or platform.machine()
    with suppress(OSError):
        listed = Path("/proc/cpuinfo").read_text("utf-8", errors="replace")
        name = next(iter(re.findall(r"model name\s*:\s*(.+)", listed)), name)
    return f"{name}, {counted(computing_cores(), 'core')}"


def in_common(config: dict[str, Any]) -> dict[str, Any]:
    """What must be the same in all processes of a run."""
    same = {name: config[name] for name in ("task", "settings", "versions", "device")}
    return same | {"fingerprint": config["data"]["fingerprint"]}
