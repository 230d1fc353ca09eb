"""Runs from disk: finds run directories and reads them. No checkpoint is read, nothing is compiled,
and nothing that a `config.json` names is imported: a task that is not built in describes itself
there."""

import math
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import UserError, first_line
from ..experiments import EXPERIMENTS, VAE, ConvVAE, experiment_from
from ..training import RunDirectory
from .labels import VARIANCE
from .record import Asked, Curve, RunRecord, identity

RUN_FILES = {"config.json", "metrics.jsonl"}  # one of these makes a directory a run


class Damaged(NamedTuple):
    """A run that cannot be read, and why."""

    path: Path
    reason: str


class Duplicate(NamedTuple):
    """A run that is left out for another one of the same settings and seed, which counts."""

    run: RunRecord
    instead: RunRecord

    @property
    def disagreement(self) -> str:
        """How the two differ in what was measured, though they should not; empty if they do not.
        Their times may differ."""
        run, instead = self
        common = [name for name in run.curves if name in instead.curves and name != "seconds"]
        found = (_first_difference(name, run.curves[name], instead.curves[name]) for name in common)
        if not (differences := [each for each in found if each]):
            return ""
        epoch, name, ours, theirs = min(differences, key=lambda each: each[0])
        why = "" if run.environments == instead.environments else " (on other versions or devices)"
        return f"{name} is {ours:.6g} instead of {theirs:.6g} after epoch {epoch}{why}"


class Collection(NamedTuple):
    """All that was found."""

    runs: list[RunRecord]
    duplicates: list[Duplicate]
    damaged: list[Damaged]


def find_runs(paths: Sequence[Path]) -> list[Path]:
    """The run directories among these paths and below them, each once."""
    found: dict[Path, Path] = {}
    for path in paths:
        if not path.exists():
            raise UserError(f"{path}: no such directory")
        for run in _below(path):
            found.setdefault(run.resolve(), run)
    if not found:
        raise UserError(f"no runs in {', '.join(map(str, paths))}: train some with hnca train")
    return sorted(found.values())


def _below(top: Path) -> Iterator[Path]:
    """Through links, too, though not in circles."""
    seen: set[str] = set()
    for directory, below, files in os.walk(top, onerror=_refuse, followlinks=True):
        here = os.path.realpath(directory)
        if here in seen:
            below.clear()
            continue
        seen.add(here)
        if RUN_FILES & set(files):
            below.clear()  # what is in a run is no run
            yield Path(directory)
        below[:] = [name for name in below if name[0] != "."]


def _refuse(error: OSError) -> None:
    """Not what has vanished since it was listed: others may be at work there."""
    if not isinstance(error, FileNotFoundError):
        raise error


def read_runs(
    paths: list[Path], track: Callable[[list[Path]], Iterable[Path]] = lambda paths: paths
) -> Collection:
    """Reads run directories; the same settings and seed count once. `track` may show progress."""
    read = [_read(path) for path in track(paths)]
    runs, duplicates = _unique([each for each in read if isinstance(each, RunRecord)])
    return Collection(runs, duplicates, [each for each in read if isinstance(each, Damaged)])


def _first_difference(name: str, a: Curve, b: Curve) -> tuple[int, str, float, float] | None:
    """The first epoch that both have with different values, and what those are."""
    epochs, here, there = np.intersect1d(a.epochs, b.epochs, return_indices=True)
    unequal = np.flatnonzero(a.values[here] != b.values[there])
    if not len(unequal):
        return None
    first = unequal[0]
    ours, theirs = a.values[here[first]], b.values[there[first]]
    return int(epochs[first]), name, float(ours), float(theirs)


def _read(path: Path) -> RunRecord | Damaged:
    try:
        return _run(RunDirectory(path))
    except UserError as error:
        return Damaged(path, str(error).replace(f"{path}{os.sep}", ""))
    except OSError as error:
        return Damaged(path, f"{error.strerror}: {error.filename}")
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        what = f"{type(error).__name__}: {first_line(error)}"
        return Damaged(path, f"not as hnca train writes it ({what})")


def _run(directory: RunDirectory) -> RunRecord:
    config = directory.read_config()
    asked = _asked(config)
    data, fingerprint = _data(config)
    entries = directory.read_metrics()
    directory.check_metrics(config, entries)
    curves = _curves(entries)
    summary = directory.read_summary()
    _add_last_test(curves, summary)
    run = RunRecord(
        path=directory.path,
        asked=asked,
        data=data,
        fingerprint=fingerprint,
        environments=[_environment(each) for each in [config, *config.get("earlier", [])]],
        curves=curves,
        summary=summary,
        done=len(curves["epoch"].epochs) if curves else 0,
        planned=_planned(asked.settings, curves),
    )
    _check_measured(run)
    for record in (run.final, run.evaluation):
        _check_finite(directory.summary, np.array(list(record.values()), dtype=float))
    return run


def _asked(config: dict[str, Any]) -> Asked:
    """Built-in experiments know how to check their settings, and one way to say what can be said in
    several ways (--layers and --units)."""
    if config["task"] not in EXPERIMENTS:
        return _described(config)
    experiment = experiment_from(config)
    experiment.check()
    settings = asdict(experiment)
    if isinstance(experiment, VAE):
        sizes = experiment.sizes
        units = sizes if len(set(sizes)) > 1 else sizes[0]  # `layers` tells how often
        settings |= {"layers": len(sizes), "units": units}
    layers = settings.get("layers", 1)  # a conv-bandit has one stochastic layer
    if isinstance(experiment, ConvVAE):
        layers = len(experiment.channels)
    measure = config.get("measure", experiment.measure)
    return Asked(config["task"], experiment.title, (), measure, layers, settings)


def _described(config: dict[str, Any]) -> Asked:
    """An experiment of which nothing is known but what its run says."""
    task, settings = config["task"], config["settings"]
    for name, kind in {"title": str, "measure": str, "told": list}.items():
        if name not in config:
            known = ", ".join(EXPERIMENTS)
            raise UserError(f"task {task!r} is none of {known}, and config.json has no '{name}'")
        if not isinstance(config[name], kind):
            raise UserError(f"'{name}' in config.json is {config[name]!r}")
    for name, least in {"epochs": 1, "seed": 0}.items():
        if not _is_count(settings.get(name), least):
            raise UserError(f"setting '{name}' in config.json is {settings.get(name)!r}")
    layers = settings.get("layers")
    if source := config.get("versions", {}).get("experiment"):
        settings = settings | {"experiment_file": source[:8]}  # other code is another experiment
    return Asked(
        task=str(task),
        title=config["title"],
        told=tuple(map(str, config["told"])),
        measure=config["measure"],
        layers=layers if _is_count(layers, 1) else None,
        settings=settings,
    )


def _is_count(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _data(config: dict[str, Any]) -> tuple[str, str]:
    """Name and fingerprint of the data; an experiment that is not built in may have none."""
    data = config["data"]
    if config["task"] not in EXPERIMENTS and not data:
        return "", ""
    return str(data["name"]), str(data["fingerprint"])


def _environment(record: dict[str, Any]) -> dict[str, Any]:
    """Runs of earlier versions do not tell all of it."""
    told = {name: record[name] for name in ("device", "machine", "kernel") if record.get(name)}
    return record.get("versions", {}) | told


def _check_measured(run: RunRecord) -> None:
    """Every epoch has what all epochs have, and the end of a built-in experiment a test."""
    for name in ("step", "seconds", f"train_{run.measure}", VARIANCE):
        if run.done and (name not in run.curves or len(run.curves[name].epochs) != run.done):
            raise UserError(f"metrics.jsonl has epochs without {name}")
    test = f"test_{run.measure}"
    if run.complete and run.task in EXPERIMENTS and test not in run.final:
        raise UserError(f"summary.json has no {test}")


def _curves(entries: list[dict[str, Any]]) -> dict[str, Curve]:
    columns: dict[str, tuple[list, list]] = defaultdict(lambda: ([], []))
    for entry in entries:
        for name, value in entry.items():
            epochs, values = columns[name]
            epochs.append(entry["epoch"])
            values.append(value)
    curves = {
        name: Curve(np.array(epochs), np.array(values, dtype=float))
        for name, (epochs, values) in columns.items()
    }
    for name, curve in curves.items():
        _check_finite(name, curve.values)
    return curves


def _add_last_test(curves: dict[str, Curve], summary: dict[str, Any]) -> None:
    """The test after the last epoch, which is in the summary only where none was due."""
    final = summary.get("final")
    if not (curves and isinstance(final, dict)) or summary.get("epochs") != len(curves["epoch"][0]):
        return
    last = curves["epoch"].epochs[-1:]
    for name, value in final.items():
        before = curves.get(name, Curve(last[:0], np.zeros(0)))
        if name.startswith("test_") and not np.isin(last, before.epochs):
            values = np.append(before.values, float(value))
            curves[name] = Curve(np.append(before.epochs, last), values)


def _check_finite(what: object, values: np.ndarray) -> None:
    if not np.isfinite(values).all():
        raise UserError(f"{what} has values that are no finite numbers")


def _planned(settings: dict[str, Any], curves: dict[str, Curve]) -> int | None:
    """How many epochs --updates come to can be told from the steps of the first."""
    if settings.get("updates") is None:
        return settings["epochs"]
    return math.ceil(settings["updates"] / curves["step"].values[0]) if curves else None


def _unique(runs: list[RunRecord]) -> tuple[list[RunRecord], list[Duplicate]]:
    """Of the same settings and seed the run that got furthest, an evaluated one for preference."""
    chosen: dict[str, RunRecord] = {}
    best_first = sorted(runs, key=lambda run: (not run.complete, not run.evaluation, -run.done))
    for run in best_first:
        chosen.setdefault(f"{identity(run)} {run.seed}", run)
    counting = [Duplicate(run, chosen[f"{identity(run)} {run.seed}"]) for run in runs]
    unique = [each.run for each in counting if each.run is each.instead]
    return unique, [each for each in counting if each.run is not each.instead]
