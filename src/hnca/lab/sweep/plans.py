"""A plan by its name, or from a TOML file.

    about = "how HNCA likes its learning rate"    # optional

    [settings]                        # optional: those that all grids share
    dataset = "glyphs"

    [[grid]]                          # one or more
    task = "bandit"                   # as in `hnca train`
    seeds = [0, 1, 2]                 # [0] by default
    layers = 2                        # any setting of the task, one for all ...
    estimator = ["hnca", "reinforce"] # ... or a list, which is multiplied out
    learning_rate = [1e-4, 1e-3]

gives 2 x 2 x 3 runs. What a plan does not say is as in the paper.
"""

import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import UserError
from ..experiments import AbstractExperiment
from .grids import expanded

KEYS = ("about", "settings", "grid")


class Plan(NamedTuple):
    """Experiments to be run, each once."""

    name: str
    about: str
    experiments: list[AbstractExperiment]
    usual: dict[str, Any]  # settings that all grids share: names of runs do not tell them


def built_in() -> dict[str, str]:
    """The plans that have a name, and what each is about."""
    return {name: tomllib.loads(text).get("about", "") for name, text in _built_in().items()}


def read_plan(name: str) -> Plan:
    """The plan of this name, or that of a TOML file."""
    if name in (known := _built_in()):
        return _plan(name, name, known[name])
    path = Path(name).expanduser()
    if not path.is_file():
        missing = f"no file {name}" if path.suffix else f"no plan '{name}'"
        raise UserError(f"{missing}: it has to be one of {', '.join(known)}, or a TOML file")
    try:
        return _plan(path.stem, name, path.read_text(encoding="utf-8"))
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


def _plan(name: str, where: str, text: str) -> Plan:
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
            found += expanded(shared | grid)
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
