"""A run on disk: what was asked for, what was measured, and where to go on from.

config.json     everything needed to run it again
metrics.jsonl   a line for each epoch
checkpoint/     the last two states
summary.json    written at the end
curves.png
"""

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from ...kernels.native import PURE
from ..errors import UserError
from ..files import write_json, write_synced, write_whole

LOCK = ".lock"
# Settings that do not make another run: it may have more epochs, and its data lie anywhere.
FREE = ("epochs", "updates", "dataset")


class Busy(UserError):
    """Another process is at work in the directory."""


class RunDirectory:
    """The files of one run."""

    def __init__(self, path: Path):
        self.path = path
        self.config = path / "config.json"
        self.metrics = path / "metrics.jsonl"
        self.checkpoints = path / "checkpoint"
        self.summary = path / "summary.json"
        self.curves = path / "curves.png"

    @contextmanager
    def lock(self) -> Iterator[None]:
        """One process at a time. The lock goes with the process, however that ends."""
        self.path.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(self.path / LOCK, timeout=0):
                yield
        except Timeout:
            raise Busy(
                f"another process is at work in {self.path}: wait for it, or choose another --out"
            ) from None

    def check(self, config: dict[str, Any]) -> None:
        """Refuses a directory with another run, or with anything else."""
        if self.config.exists():
            self._check_same(self.read_config(), config)
        elif strangers := [file.name for file in self.path.iterdir() if file.name[0] != "."]:
            raise UserError(
                f"{self.path} is no run's directory (it holds {sorted(strangers)[0]}): "
                "choose another --out"
            )

    def begin(self, config: dict[str, Any]) -> None:
        """Writes the configuration. Of a run that goes on in another environment, the first one is
        kept beside the new one."""
        if self.config.exists() and (earlier := _environments(self.read_config(), config)):
            config = config | {"earlier": earlier}
        write_json(self.config, config)

    def _check_same(self, before: dict[str, Any], now: dict[str, Any]) -> None:
        flat = [_identity(record) for record in (before, now)]
        for name in flat[0] | flat[1]:
            old, new = (each.get(name) for each in flat)
            if old != new:
                raise UserError(
                    f"{self.path} holds a run with {name} {old}, not {new}: "
                    "choose another --out, or delete it"
                )

    def read_config(self) -> dict[str, Any]:
        """What was asked for."""
        try:
            config = json.loads(self.config.read_text())
        except FileNotFoundError:
            raise UserError(f"{self.path} is no run: it has no config.json") from None
        except ValueError as error:
            raise UserError(f"{self.config} is damaged: {error}") from None
        if not isinstance(config, dict) or not {"task", "settings", "data"} <= set(config):
            raise UserError(f"{self.config} was not written by hnca train")
        return config

    def read_summary(self) -> dict[str, Any]:
        """What was written at the end, or nothing yet."""
        try:
            summary = json.loads(self.summary.read_text())
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise UserError(f"{self.summary} is damaged: {error}; delete it") from None
        if not isinstance(summary, dict):
            raise UserError(f"{self.summary} was not written by hnca train; delete it")
        return summary

    def read_metrics(self) -> list[dict[str, Any]]:
        """What was measured, an entry for each epoch from the first. Half a line, of a process
        that was killed while it wrote, counts for nothing."""
        lines = self.metrics.read_text().splitlines(keepends=True) if self.metrics.exists() else []
        try:
            entries = [json.loads(line) for line in lines if line.endswith("\n")]
            if [entry["epoch"] for entry in entries] == list(range(1, len(entries) + 1)):
                return entries
        except (ValueError, TypeError, KeyError):
            pass
        raise UserError(f"{self.metrics} is damaged: it must have a line for each epoch")

    def write_metrics(self, entries: list[dict[str, Any]]) -> None:
        """Puts these entries in place of all that was there."""
        write_whole(self.metrics, "".join(_line(entry) for entry in entries).encode())

    def append(self, entry: dict[str, Any]) -> None:
        """Adds what was measured in an epoch."""
        write_synced(self.metrics, _line(entry).encode(), mode="ab")


def _line(entry: dict[str, Any]) -> str:
    return json.dumps(entry) + "\n"


def _identity(config: dict[str, Any]) -> dict[str, Any]:
    """What must be the same for a run to go on."""
    settings = {name: value for name, value in config["settings"].items() if name not in FREE}
    data = config["data"]
    return {"task": config["task"], "data": (data["name"], data["fingerprint"]), **settings}


def _environments(before: dict[str, Any], now: dict[str, Any]) -> list[dict[str, Any]]:
    """Those in which the run was under way before; a change may change bits, so it is told."""
    before = {"kernel": PURE} | before  # of runs from before there was another
    earlier, names = before.get("earlier", []), ("versions", "device", "kernel")
    if all(before.get(name) == now[name] for name in names):
        return earlier
    what = "other versions or another device"
    if before["kernel"] != now["kernel"]:
        what = f"another kernel ({before['kernel']} then, {now['kernel']} now)"
    warnings.warn(f"{what} than before: bits may differ", stacklevel=3)
    return [*earlier, {name: before.get(name) for name in names}]
