"""The runs of a plan: what each is called, and which of them are wanted."""

import dataclasses
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import UserError
from ..experiments import AbstractExperiment


class Run(NamedTuple):
    """An experiment, and the name of its directory."""

    name: str
    experiment: AbstractExperiment


def runs_of(experiments: Sequence[AbstractExperiment], epochs: int | None = None) -> list[Run]:
    """The experiments by name, as `hnca train` names them; `epochs` is for all of them. Where one
    name would stand for several, it tells the settings in which they differ."""
    if epochs is not None:
        if epochs < 1:
            raise UserError(f"--epochs must be above 0, not {epochs}")
        same = (replace(each, epochs=epochs) for each in experiments)
        experiments = list(dict.fromkeys(same))
    groups: dict[str, list[AbstractExperiment]] = defaultdict(list)
    for experiment in experiments:
        groups[_name(experiment)].append(experiment)
    return [Run(_name(each, _telling(groups[_name(each)])), each) for each in experiments]


def narrowed(runs: Sequence[Run], seeds: Sequence[int] = (), only: Sequence[str] = ()) -> list[Run]:
    """Those with one of the seeds, and with one of the patterns in their names."""
    left = [run for run in runs if not seeds or run.experiment.seed in seeds]
    if not left:
        known = sorted({run.experiment.seed for run in runs})
        raise UserError(f"--seeds: no run of the plan has them; there are {_listed(known)}")
    found = [run for run in left if not only or any(_matches(run, each) for each in only)]
    if not found:
        names = _listed(dict.fromkeys(run.experiment.title for run in left))
        raise UserError(f"--only {' '.join(only)}: matches none of {names}")
    return found


def _matches(run: Run, pattern: str) -> bool:
    return fnmatchcase(run.name, f"*{pattern}*")


def _telling(group: Sequence[AbstractExperiment]) -> list[str]:
    """The settings in which a group differs."""
    names = [field.name for field in dataclasses.fields(group[0])]
    return [name for name in names if len({getattr(each, name) for each in group}) > 1]


def _name(experiment: AbstractExperiment, telling: Sequence[str] = ()) -> str:
    """Title, data and seed; before them, those of the telling settings that are not the paper's."""
    usual = type(experiment)()
    told = [
        f"{name.replace('_', '-')}-{_word(getattr(experiment, name))}"
        for name in telling
        if getattr(experiment, name) != getattr(usual, name)
    ]
    data = Path(experiment.dataset).name
    return "-".join([experiment.title, *told, data, str(experiment.seed)])


def _word(value: Any) -> str:
    """A value, fit for a name."""
    text = "x".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return text.strip("/").replace("/", "-")


def _listed(values: Any) -> str:
    return ", ".join(map(str, values))
