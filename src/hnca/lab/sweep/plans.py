"""Plans: by name or from a TOML file, grids multiplied out, the runs that come of it.

    about = "how HNCA likes its learning rate"    # optional

    [settings]                        # optional: those that all grids share
    dataset = "glyphs"

    [[grid]]                          # one or more
    task = "bandit"                   # as in `hnca train`, or "my_experiment.py:MyExperiment"
    seeds = [0, 1, 2]                 # [0] by default
    layers = 2                        # any setting of the task, one for all ...
    estimator = ["hnca", "reinforce"] # ... or a list, which is multiplied out
    learning_rate = [1e-4, 1e-3]

gives 2 x 2 x 3 runs. What a plan does not say is as in the paper. The file of a task is looked for
beside the plan first.
"""

import dataclasses
import math
import os
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from ..errors import UsageError, UserError
from ..experiments import EXPERIMENTS, AbstractExperiment, experiment_class, run_name, whole_name
from ..settings import KINDS, Setting, from_value, setting_named, settings_of

KEYS = ("about", "settings", "grid")
OTHERWISE = {"seed": "seeds = [0]", "updates": "epochs"}  # settings that a plan says by others
QUIET = 3.0  # seconds: what takes longer says how far it is
LONGEST = 255  # bytes of a name of a directory

Say = Callable[[str], None]  # tells the user a line
Item = TypeVar("Item")


class Plan(NamedTuple):
    """Experiments to be run, each once."""

    name: str
    about: str
    experiments: list[AbstractExperiment]
    usual: dict[str, Any]  # settings that all grids share: names of runs do not tell them


def built_in() -> dict[str, str]:
    """The plans that have a name, and what each is about."""
    return {name: tomllib.loads(text).get("about", "") for name, text in _built_in().items()}


def announced(items: Iterable[Item], total: int, what: str, say: Say) -> Iterator[Item]:
    """The items one by one, and every few seconds a line that tells how far it is."""
    due = time.monotonic() + QUIET
    for number, item in enumerate(items):
        if time.monotonic() > due:
            say(f"{what}: {number:,} of {total:,}")
            due = time.monotonic() + QUIET
        yield item


def read_plan(name: str, say: Say = lambda line: None) -> Plan:
    """The plan of this name, or that of a TOML file."""
    if name in (known := _built_in()):
        return _plan(name, name, known[name], None, say)
    path = Path(name).expanduser()
    if not path.is_file():
        missing = f"no file {name}" if path.suffix else f"no plan '{name}'"
        raise UserError(f"{missing}: it has to be one of {', '.join(known)}, or a TOML file")
    if not _names_a_directory(path.stem):
        raise UserError(f"{name}: rename it, as in plan.toml; its runs go to a directory like it")
    try:
        return _plan(path.stem, name, path.read_text(encoding="utf-8"), path.parent, say)
    except UnicodeDecodeError:
        raise UserError(f"{name} is not a text file") from None


def _built_in() -> dict[str, str]:
    found = [
        each
        for each in (files(__name__.rpartition(".")[0]) / "builtin").iterdir()
        if each.is_file()
    ]
    texts = {each.name.removesuffix(".toml"): each.read_text("utf-8") for each in found}
    return dict(sorted(texts.items()))


def _plan(name: str, where: str, text: str, base: Path | None, say: Say) -> Plan:
    try:
        record = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{where} is not TOML: {error}") from None
    if unknown := [key for key in record if key not in KEYS]:
        raise UserError(f"{where}: unknown key '{unknown[0]}': a plan has {', '.join(KEYS)}")
    about, shared, grids = _parts(where, record)
    found: list[AbstractExperiment] = []
    for number, grid in enumerate(grids, start=1):
        try:
            found += expanded(shared | grid, base, say)
        except UserError as error:
            raise UserError(f"{where}, grid {number}: {error}") from None
    usual = {setting: value for setting, value in shared.items() if not isinstance(value, list)}
    return Plan(name, about, list(dict.fromkeys(found)), usual)  # what two grids have runs once


def _parts(where: str, record: dict[str, Any]) -> tuple[str, dict[str, Any], list[dict[str, Any]]]:
    """What a plan is made of, with the right shapes."""
    about, shared = record.get("about", ""), record.get("settings", {})
    grids = record.get("grid", [])
    if not isinstance(about, str):
        raise UserError(f"{where}: about must be a text")
    if not isinstance(shared, dict):
        raise UserError(f"{where}: settings must be a table, [settings]")
    if not (grids and isinstance(grids, list) and all(isinstance(each, dict) for each in grids)):
        raise UserError(f"{where}: a plan needs one or more tables [[grid]]")
    return about, shared, grids


def expanded(grid: dict[str, Any], base: Path | None, say: Say) -> list[AbstractExperiment]:
    """Every experiment of a grid, checked; the seeds of one setting stand together. A file that the
    task names may be in `base`."""
    task, seeds = grid.get("task"), grid.get("seeds", [0])
    if not isinstance(task, str):
        given = "there is no task" if task is None else f"unknown task {task!r}"
        raise UserError(f"{given}: choose one of {', '.join(EXPERIMENTS)}, or FILE.py:CLASS")
    if not (seeds and isinstance(seeds, list) and all(KINDS[int].fits(seed) for seed in seeds)):
        raise UserError(f"seeds must be a list of numbers, as in [0, 1, 2], not {seeds!r}")
    kind = experiment_class(task, base)
    settings = [each for each in settings_of(kind) if each.name not in OTHERWISE]
    names = [name for name in grid if name not in ("task", "seeds")]
    for name in names:
        if name in OTHERWISE:
            raise UserError(f"unknown setting '{name}': a plan says it by {OTHERWISE[name]}")
    choices = [_choices(setting_named(settings, name, task), grid[name]) for name in names]
    found, count = [], math.prod(map(len, choices))
    for values in announced(product(*choices), count, "checked settings", say):
        shared = dict(zip(names, values, strict=True))
        alike = [kind(**shared, seed=seed) for seed in seeds]
        for experiment in alike[:1] if found else alike:  # a seed need not be checked again
            experiment.check()
        found += alike
    return found


def _choices(setting: Setting, given: Any) -> list[Any]:
    """The values of a setting; one that is no list is the only one."""
    values = given if isinstance(given, list) else [given]
    if not values:
        raise UserError(f"{setting.name} is an empty list: give one value or more")
    return [from_value(setting, value) for value in values]


class PlannedRun(NamedTuple):
    """An experiment, and the name of its directory."""

    name: str
    experiment: AbstractExperiment


def runs_of(
    experiments: Sequence[AbstractExperiment],
    epochs: int | None = None,
    usual: Mapping[str, Any] = {},
    say: Say = lambda line: None,
    place: Path | None = None,
) -> list[PlannedRun]:
    """The experiments by name, as `hnca train` names them; `epochs` is for all of them, `usual` are
    settings that names need not tell, and `place` is where runs may be already."""
    if epochs is not None:
        if epochs < 1:
            raise UsageError(f"--epochs must be above 0, not {epochs}")
        same = (dataclasses.replace(each, epochs=epochs) for each in experiments)
        experiments = list(dict.fromkeys(same))
    named = announced(experiments, len(experiments), "named runs", say)
    runs = [PlannedRun(run_name(each, usual, place), each) for each in named]
    _check_names(runs)
    return runs


def narrowed(
    runs: Sequence[PlannedRun], seeds: Sequence[int] = (), only: Sequence[str] = ()
) -> list[PlannedRun]:
    """Those with one of the seeds, and with one of the patterns in their names."""
    left = [run for run in runs if not seeds or run.experiment.seed in seeds]
    if not left:
        known = sorted({run.experiment.seed for run in runs})
        raise UsageError(f"--seeds: no run of the plan has them; there are {_listed(known)}")
    found = [run for run in left if not only or any(_matches(run, each) for each in only)]
    if not found:
        names = _listed(dict.fromkeys(run.experiment.title for run in left))
        raise UsageError(f"--only {' '.join(only)}: matches none of {names}")
    return found


def _matches(run: PlannedRun, pattern: str) -> bool:
    names = (run.name, whole_name(run.experiment))  # the name may be cut
    return any(fnmatchcase(name, f"*{pattern}*") for name in names)


def _check_names(runs: Sequence[PlannedRun]) -> None:
    """A run needs a directory of its own, which one cannot hold two of."""
    first: dict[str, PlannedRun] = {}
    for run in runs:
        if not _names_a_directory(run.name):
            raise UserError(f"a run cannot be called {run.name!r}: that is no name of a directory")
        other = first.setdefault(run.name, run)
        if other is not run and (differ := _differences(run, other)):
            raise UserError(
                f"two runs are called {run.name}: they differ in {_listed(differ)} only"
            )


def _differences(run: PlannedRun, other: PlannedRun) -> list[str]:
    settings = dataclasses.asdict(run.experiment)
    return [name for name, value in settings.items() if value != getattr(other.experiment, name)]


def _names_a_directory(name: str) -> bool:
    """One that shows in a listing, and is a single directory below where it is meant to be."""
    fit = name.isprintable() and "/" not in name and not name.startswith(".")
    return bool(name) and fit and len(os.fsencode(name)) <= LONGEST


def _listed(values: Iterable[Any]) -> str:
    return ", ".join(map(str, values))
