"""The runs of a plan: what each is called, and which of them are wanted."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from ..errors import UserError
from ..experiments import AbstractExperiment, run_name


class Run(NamedTuple):
    """An experiment, and the name of its directory."""

    name: str
    experiment: AbstractExperiment


def runs_of(
    experiments: Sequence[AbstractExperiment],
    epochs: int | None = None,
    usual: Mapping[str, Any] = {},
) -> list[Run]:
    """The experiments by name, as `hnca train` names them; `epochs` is for all of them, and
    `usual` are settings that names need not tell."""
    if epochs is not None:
        if epochs < 1:
            raise UserError(f"--epochs must be above 0, not {epochs}")
        same = (replace(each, epochs=epochs) for each in experiments)
        experiments = list(dict.fromkeys(same))
    runs = [Run(run_name(each, usual), each) for each in experiments]
    _check_names(runs)
    return runs


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


def _check_names(runs: Sequence[Run]) -> None:
    """One directory cannot hold two runs."""
    first: dict[str, Run] = {}
    for run in runs:
        other = first.setdefault(run.name, run)
        differ = [
            name
            for name, value in asdict(run.experiment).items()
            if value != getattr(other.experiment, name)
        ]
        if differ:
            raise UserError(
                f"two runs are called {run.name}: they differ in {_listed(differ)} only"
            )


def _listed(values: Any) -> str:
    return ", ".join(map(str, values))
