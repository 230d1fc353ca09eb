"""A run on disk: what was asked for, what was measured, and where to go on from.

config.json     everything needed to run it again
metrics.jsonl   a line for each epoch
checkpoint/     the last two states
summary.json    written at the end
curves.png
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from ..errors import UserError
from .files import write_json, write_whole

LOCK = ".lock"


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
            raise UserError(
                f"another process is training in {self.path}: wait for it, or choose another --out"
            ) from None

    def begin(self, config: dict[str, Any]) -> None:
        """Writes the configuration; a directory with another run, or without any, is refused."""
        if self.config.exists():
            self._check_same(self.read_config(), config)
        elif strangers := [file.name for file in self.path.iterdir() if file.name[0] != "."]:
            raise UserError(
                f"{self.path} is no run's directory (it holds {sorted(strangers)[0]}): "
                "choose another --out"
            )
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
            return json.loads(self.config.read_text())
        except FileNotFoundError:
            raise UserError(f"{self.path} is no run: it has no config.json") from None
        except ValueError as error:
            raise UserError(f"{self.config} is damaged: {error}") from None

    def read_metrics(self) -> list[dict[str, Any]]:
        """What was measured, an entry for each epoch. Half a line, of a process that was killed
        while it wrote, counts for nothing."""
        lines = self.metrics.read_text().splitlines(keepends=True) if self.metrics.exists() else []
        whole = [line for line in lines if line.endswith("\n")]
        try:
            return [json.loads(line) for line in whole]
        except ValueError as error:
            raise UserError(f"{self.metrics} is damaged: {error}") from None

    def forget_after(self, epoch: int) -> list[dict[str, Any]]:
        """Drops what was measured after an epoch: it will be measured again. Returns the rest."""
        kept = [entry for entry in self.read_metrics() if entry["epoch"] <= epoch]
        if [entry["epoch"] for entry in kept] != list(range(1, epoch + 1)):
            raise UserError(f"{self.metrics} lacks epochs before {epoch}: delete {self.path}")
        write_whole(self.metrics, "".join(_line(entry) for entry in kept).encode())
        return kept

    def append(self, entry: dict[str, Any]) -> None:
        """Adds what was measured in an epoch."""
        with open(self.metrics, "a") as file:
            file.write(_line(entry))


def _line(entry: dict[str, Any]) -> str:
    return json.dumps(entry) + "\n"


def _identity(config: dict[str, Any]) -> dict[str, Any]:
    """What must be the same for a run to go on. More epochs are no other run."""
    settings = {k: v for k, v in config["settings"].items() if k not in ("epochs", "updates")}
    return {"task": config["task"], **settings, "data": config["data"]["fingerprint"]}
