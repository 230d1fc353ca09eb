"""A grid: a task, fixed settings, lists that are multiplied out, and seeds."""

import dataclasses
from difflib import get_close_matches
from itertools import product
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from ..errors import UserError
from ..experiments import EXPERIMENTS, AbstractExperiment

OWN = ("seed", "updates")  # settings that a grid says otherwise: by `seeds` and `epochs`


def expanded(grid: dict[str, Any]) -> list[AbstractExperiment]:
    """Every experiment of a grid, checked; the seeds of one setting stand together."""
    task = grid.get("task")
    if not isinstance(task, str) or task not in EXPERIMENTS:
        given = "there is no task" if task is None else f"unknown task {task!r}"
        raise UserError(f"{given}: choose one of {', '.join(EXPERIMENTS)}")
    kind, seeds = EXPERIMENTS[task], grid.get("seeds", [0])
    if not (seeds and isinstance(seeds, list) and all(_fits(seed, int) for seed in seeds)):
        raise UserError(f"seeds must be a list of numbers, as in [0, 1, 2], not {seeds!r}")
    hints = get_type_hints(kind)
    names = [name for name in grid if name not in ("task", "seeds")]
    choices = [_choices(kind, hints, name, grid[name]) for name in names]
    found = []
    for values in product(*choices, seeds):
        settings: dict[str, Any] = dict(zip([*names, "seed"], values, strict=True))
        experiment = kind(**settings)
        experiment.check()
        found.append(experiment)
    return found


def _choices(
    kind: type[AbstractExperiment], hints: dict[str, Any], name: str, given: Any
) -> list[Any]:
    """The values of a setting; one that is no list is the only one."""
    known = [field.name for field in dataclasses.fields(kind) if field.name not in OWN]
    if name not in known:
        close = get_close_matches(name, known, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        allowed = f"{kind.name} has {', '.join(known)}"
        raise UserError(f"unknown setting '{name}': {hint}{allowed}")
    values = given if isinstance(given, list) else [given]
    if not values:
        raise UserError(f"{name} is an empty list: give one value or more")
    return [_value(name, hints[name], value) for value in values]


def _value(name: str, kind: Any, value: Any) -> Any:
    """A value as the experiment wants it, of the right type."""
    if get_origin(kind) is tuple:  # one size, or a list of them
        value = tuple(value) if isinstance(value, list) else (value,)
    if not _fits(value, kind):
        given = list(value) if isinstance(value, tuple) else value
        raise UserError(f"{name} must be {_words(kind)}, not {given!r}")
    return float(value) if kind is float else value


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value is of a type, as TOML and the experiments have them."""
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if get_origin(kind) is tuple:
        return all(_fits(each, get_args(kind)[0]) for each in value)
    if get_args(kind):  # a union
        return any(_fits(value, each) for each in get_args(kind))
    if kind is bool or isinstance(value, bool):
        return kind is bool and isinstance(value, bool)
    return isinstance(value, (int, float) if kind is float else kind)


def _words(kind: Any) -> str:
    """A type, for people."""
    if get_origin(kind) is Literal:
        return f"one of {', '.join(map(str, get_args(kind)))}"
    if get_origin(kind) is tuple:
        return "a whole number, or a list of them inside of the list"
    known = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
    return " or ".join(known[each] for each in get_args(kind) or (kind,) if each is not NoneType)
