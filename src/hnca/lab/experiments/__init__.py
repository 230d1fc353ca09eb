"""The paper's experiments, ready to run."""

import hashlib
import importlib.util
import inspect
import os
import sys
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

from ..errors import UserError, first_line
from .bandit import Bandit as Bandit
from .bandit import ConvBandit as ConvBandit
from .base import AbstractExperiment as AbstractExperiment
from .base import binarise as binarise
from .naming import run_name as run_name
from .vae import VAE as VAE

EXPERIMENTS: dict[str, type[AbstractExperiment]] = {
    experiment.name: experiment for experiment in (Bandit, ConvBandit, VAE)
}


def experiment_class(task: str, base: Path | None = None) -> type[AbstractExperiment]:
    """The built-in experiment of this name, or CLASS of FILE.py:CLASS. A relative file is looked
    for in `base` first, the directory of a plan, then in the working directory. Importing a file
    runs it: so this is only for what the user names."""
    if task in EXPERIMENTS:
        return EXPERIMENTS[task]
    file, _, name = task.rpartition(":")
    if not file.endswith(".py"):
        known = ", ".join(EXPERIMENTS)
        raise UserError(f"unknown task '{task}': choose one of {known}, or FILE.py:CLASS")
    module = _module(_found(file, base))
    found = getattr(module, name, None)
    if inspect.isclass(found) and issubclass(found, AbstractExperiment):
        return found
    there = [
        each
        for each, value in vars(module).items()
        if inspect.isclass(value) and issubclass(value, AbstractExperiment)
    ]
    close = get_close_matches(name, there, n=1)
    hint = f"did you mean {close[0]}?" if close else f"there is {', '.join(there) or 'none'}"
    raise UserError(f"{file} has no experiment '{name}': {hint}")


def task_of(kind: type[AbstractExperiment]) -> str:
    """What `experiment_class` finds it by, from any directory."""
    if EXPERIMENTS.get(kind.name) is kind:
        return kind.name
    return f"{os.path.abspath(inspect.getfile(kind))}:{kind.__name__}"


def _found(file: str, base: Path | None) -> Path:
    for place in [base or Path(), Path()]:
        path = place / Path(file).expanduser()
        if path.is_file():
            return path.resolve()
    raise UserError(f"no file {file}: a task is FILE.py:CLASS, with the path of the file")


def _module(path: Path) -> ModuleType:
    """The file, imported once in a process. Its name is made of its path, so that two files of one
    name do not meet; dataclasses find it in `sys.modules`."""
    name = f"hnca_task_{hashlib.sha256(str(path).encode()).hexdigest()[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None  # its name ends in .py
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        said = f"{type(error).__name__}: {first_line(error)}"
        raise UserError(f"{path}{_line(error, path)}: {said}") from None
    return module


def _line(error: Exception, path: Path) -> str:
    """Where in the file it went wrong."""
    if isinstance(error, SyntaxError):
        return f", line {error.lineno}"
    lines, trace = [], error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    return f", line {lines[-1]}" if lines else ""


def experiment_from(
    config: dict[str, Any], kind: type[AbstractExperiment] | None = None
) -> AbstractExperiment:
    """The experiment of a run's `config.json`. One that is not built in has to be brought along:
    nothing is imported because a file says so."""
    try:
        settings: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in config["settings"].items()
        }
        kind = kind or EXPERIMENTS[config["task"]]
        if kind.name != config["task"]:
            raise UserError(f"the run is of {config['task']}, not of {kind.name}")
        return kind(**settings)
    except (AttributeError, KeyError, TypeError) as error:
        raise UserError(f"the run is of another version of hnca ({error})") from None
