"""Experiments by name: the built-in ones, and those of a file that the user names.

Importing a file runs it. So `experiment_class` is called only for what stands on the command line
or in a plan that is run, never for what a run's `config.json` says."""

import hashlib
import inspect
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import UserError
from ..imported import class_named, is_named_class
from ..settings import from_record
from .bandit import Bandit, ConvBandit
from .base import AbstractExperiment
from .vae import VAE, ConvVAE

EXPERIMENTS: dict[str, type[AbstractExperiment]] = {
    "bandit": Bandit,
    "conv-bandit": ConvBandit,
    "vae": VAE,
    "conv-vae": ConvVAE,
}
LONGEST = 72  # letters of a run's name
APART = ("epochs", "updates", "seed", "dataset")  # told at the end of a name, or no other run


def experiment_class(task: str, base: Path | None = None) -> type[AbstractExperiment]:
    """The built-in experiment of this name, or CLASS of FILE.py:CLASS. A relative file is looked
    for in `base` first, the directory of a plan, then in the working directory."""
    if task in EXPERIMENTS:
        return EXPERIMENTS[task]
    if not is_named_class(task):
        known = ", ".join(EXPERIMENTS)
        raise UserError(f"unknown task '{task}': choose one of {known}, or FILE.py:CLASS")
    fits = lambda found: issubclass(found, AbstractExperiment)
    found = class_named(task, "experiment", fits, base)
    if inspect.isabstract(found):
        missing = ", ".join(sorted(found.__abstractmethods__))
        raise UserError(f"{task} is not finished: it has no {missing}")
    return found


def task_of(kind: type[AbstractExperiment]) -> str:
    """What `experiment_class` finds it by, from any directory."""
    names = {each: name for name, each in EXPERIMENTS.items()}
    return names.get(kind) or f"{os.path.abspath(inspect.getfile(kind))}:{kind.__name__}"


def short_task(kind: type[AbstractExperiment]) -> str:
    """The same without directories, as a run records it: a file may be moved."""
    file, _, name = task_of(kind).rpartition(":")
    return f"{os.path.basename(file)}:{name}" if file else name


def source_of(kind: type[AbstractExperiment]) -> str | None:
    """SHA-256 of the file of an experiment that is not built in."""
    if kind in EXPERIMENTS.values():
        return None
    return hashlib.sha256(Path(inspect.getfile(kind)).read_bytes()).hexdigest()


def experiment_from(
    config: Mapping[str, Any], kind: type[AbstractExperiment] | None = None
) -> AbstractExperiment:
    """The experiment of a run's `config.json`. One that is not built in has to be brought along:
    nothing is imported because a file says so."""
    task = config["task"]
    if kind is None and task not in EXPERIMENTS:
        raise UserError(f"the run is of {task}: name its file, as in --task {task}")
    kind = kind or EXPERIMENTS[task]
    if short_task(kind) != task:
        raise UserError(f"the run is of {task}, not of {short_task(kind)}")
    if not isinstance(config["settings"], Mapping):
        raise UserError("its settings are no settings")
    return from_record(kind, config["settings"])


def run_name(
    experiment: AbstractExperiment, usual: Mapping[str, Any] = {}, place: Path | None = None
) -> str:
    """The title, every other setting that is not usual, the data and the seed. Fit for a directory.
    What `usual` does not say is usual if it is the paper's. What would be too long is cut, and a
    digest of the whole tells it apart; unless `place` has a run of the whole name, from before
    names were cut."""
    settings, data, seed = _name_parts(experiment, usual)
    whole = "-".join(filter(None, [settings, data, seed]))
    if len(whole) <= LONGEST or (place and os.path.isdir(place / whole)):
        return whole
    digest = hashlib.sha256(os.fsencode(f"{settings}/{data}")).hexdigest()[:8]
    end = "-".join(filter(None, [digest, data[:16], seed]))
    return f"{settings[: LONGEST - len(end) - 1]}-{end}"


def whole_name(experiment: AbstractExperiment) -> str:
    """With every setting that is not the paper's, however long that is."""
    return "-".join(filter(None, _name_parts(experiment, {})))


def _name_parts(experiment: AbstractExperiment, usual: Mapping[str, Any]) -> tuple[str, str, str]:
    """The title with the settings, the data, and the seed."""
    goes_without_saying = vars(type(experiment)()) | dict(usual)
    silent = {*APART, *experiment.told}
    told = [
        f"{name.replace('_', '-')}-{value}"
        for name, value in vars(experiment).items()
        if name not in silent and value != goes_without_saying[name]
    ]
    return "-".join([experiment.title, *told]), experiment.data_name, str(experiment.seed)
