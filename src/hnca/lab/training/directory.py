"""A run on disk: what was asked for, what was measured, and where to go on from.

config.json     everything needed to run it again
metrics.jsonl   a line for each epoch
checkpoint/     the last two states
summary.json    written at the end
curves.png
"""

import hashlib
import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from ...kernels.native import PURE
from ..errors import UserError
from ..files import write_json, write_synced, write_whole
from .checkpoint import Belonging, misplacement

LOCK = ".lock"
FREE = ("epochs", "updates", "dataset")  # settings that are no part of a run's identity
OWN_FILE = "experiment"  # among the versions: that of the file which holds the user's experiment


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

    def check(
        self, config: dict[str, Any], free: Sequence[str] = (), defaults: Mapping[str, Any] = {}
    ) -> None:
        """Refuses a directory with another run, or with anything else. Settings that are `free`
        do not make another one; what the directory does not say of a setting is the default."""
        if self.config.exists():
            before = self.read_config()
            before = before | {"settings": {**defaults, **before["settings"]}}
            self._check_same(_identity(before, free), _identity(config, free))
        elif strangers := [file.name for file in self.path.iterdir() if file.name[0] != "."]:
            raise UserError(
                f"{self.path} is no run's directory (it holds {sorted(strangers)[0]}): "
                "choose another --out"
            )

    def identified(self, config: dict[str, Any]) -> dict[str, Any]:
        """With the identity by which checkpoints know the run: that of its first configuration.
        Settings that a later version adds do not change it."""
        before = self.read_config() if self.config.exists() else config
        return config | {"identity": before.get("identity") or _digest(before)}

    def begin(self, config: dict[str, Any]) -> None:
        """Writes the configuration. Of a run that goes on in another environment, the first one is
        kept beside the new one."""
        if self.config.exists() and (earlier := _environments(self.read_config(), config)):
            config = config | {"earlier": earlier}
        write_json(self.config, config)

    def _check_same(self, before: dict[str, Any], now: dict[str, Any]) -> None:
        for name in before | now:
            if before.get(name) != now.get(name):
                raise UserError(
                    f"{self.path} holds a run {_difference(name, before, now)}: "
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
        kinds = {"task": str, "settings": dict, "data": dict | None}
        if not isinstance(config, dict) or not all(
            isinstance(config.get(name), kind) for name, kind in kinds.items()
        ):
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
        if not self.metrics.exists():
            return []
        try:
            lines = self.metrics.read_text(encoding="utf-8").splitlines(keepends=True)
            entries = [json.loads(line) for line in lines if line.endswith("\n")]
            if [entry["epoch"] for entry in entries] == list(range(1, len(entries) + 1)):
                return entries
        except (ValueError, TypeError, KeyError):
            pass
        raise UserError(f"{self.metrics} is damaged: it must have a line for each epoch")

    def check_metrics(self, config: dict[str, Any], entries: list[dict[str, Any]]) -> None:
        """Refuses metrics that are not those after which the last state was saved, as far as the
        checkpoints can tell."""
        belongings = Ledger(config).add_all(entries)
        if wrong := misplacement(self.checkpoints, belongings):
            raise UserError(f"{self.checkpoints}: {wrong}")

    def write_metrics(self, entries: list[dict[str, Any]]) -> None:
        """Puts these entries in place of all that was there."""
        write_whole(self.metrics, "".join(_line(entry) for entry in entries).encode())

    def append(self, entry: dict[str, Any]) -> None:
        """Adds what was measured in an epoch."""
        write_synced(self.metrics, _line(entry).encode(), mode="ab")


def _line(entry: dict[str, Any]) -> str:
    return json.dumps(entry) + "\n"


class Ledger:
    """Tells what states of a run belong to, epoch by epoch, by running digests."""

    def __init__(self, config: dict[str, Any]):
        self._run = config.get("identity") or _digest(config)
        self._metrics = hashlib.sha256()

    def add(self, entry: dict[str, Any]) -> Belonging:
        """Takes in what was measured in the next epoch."""
        self._metrics.update(_line(entry).encode())
        return Belonging(self._run, self._metrics.hexdigest(), entry.get("step", 0))

    def add_all(self, entries: Sequence[dict[str, Any]]) -> list[Belonging]:
        """The same for several epochs."""
        return [self.add(entry) for entry in entries]


def _digest(config: dict[str, Any]) -> str:
    """Of what makes the run: no other run has it. Its length and where its data lie do not."""
    told = _identity(config, FREE)
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def _identity(config: dict[str, Any], free: Sequence[str]) -> dict[str, Any]:
    """What must be the same for a run to go on."""
    settings = {name: value for name, value in config["settings"].items() if name not in free}
    data = config["data"] or {}
    return {"task": config["task"], "data": (data.get("name"), data.get("fingerprint")), **settings}


def _difference(name: str, before: dict[str, Any], now: dict[str, Any]) -> str:
    """In words, how a run is not the one that is asked for."""
    if name != "data":
        return f"with {name} {before.get(name)}, not {now.get(name)}"
    (data_then, _), (data_now, _) = before[name], now[name]  # names and fingerprints
    if data_then != data_now:
        return f"on {data_then}, not {data_now}"
    return f"on other data than this '{data_now}'"


def _environments(before: dict[str, Any], now: dict[str, Any]) -> list[dict[str, Any]]:
    """Those in which the run was under way before; a change may change bits, so it is told."""
    before = {"kernel": PURE} | before  # of runs from before there was another
    earlier, names = before.get("earlier", []), ("versions", "device", "kernel")
    if all(before.get(name) == now[name] for name in names):
        return earlier
    file_then, file_now = (_versions(config).get(OWN_FILE) for config in (before, now))
    if file_then and file_then != file_now:
        warnings.warn("the experiment's file has changed: the run goes on with it", stacklevel=3)
    if before["kernel"] != now["kernel"]:
        what = f"another kernel ({before['kernel']} then, {now['kernel']} now)"
        warnings.warn(f"{what} than before: bits may differ", stacklevel=3)
    elif _packages(before) != _packages(now) or before.get("device") != now["device"]:
        warnings.warn("other versions or another device than before: bits may differ", stacklevel=3)
    return [*earlier, {name: before.get(name) for name in names}]


def _versions(config: dict[str, Any]) -> dict[str, str]:
    return config.get("versions") or {}


def _packages(config: dict[str, Any]) -> dict[str, str]:
    """The versions of packages, without that of the file which an experiment of one's own is in."""
    return {name: version for name, version in _versions(config).items() if name != OWN_FILE}
