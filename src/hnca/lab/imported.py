"""Classes of files that the user names, as FILE.py:CLASS. Importing a file runs it: so only what
stands on the command line, or in a plan that is run, is ever imported."""

import hashlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

from .errors import UserError, first_line


def is_named_class(text: str) -> bool:
    """Whether it is FILE.py:CLASS."""
    return ".py:" in text


def class_named(
    text: str, what: str, fits: Callable[[type], bool], base: Path | None = None
) -> type:
    """The class of FILE.py:CLASS, which has to be `what` is asked for, as `fits` knows. A relative
    file is looked for in `base` first, the directory of a plan, then in the working directory."""
    file, _, name = text.rpartition(":")
    module = _module(_found(file, what, base))
    found = getattr(module, name, None)
    if inspect.isclass(found) and fits(found):
        return found
    usable = lambda value: inspect.isclass(value) and fits(value) and not inspect.isabstract(value)
    there = [each for each, value in vars(module).items() if usable(value)]
    close = get_close_matches(name, there, n=1)
    hint = f"did you mean {close[0]}?" if close else f"there is {', '.join(there) or 'none'}"
    raise UserError(f"{file} has no {what} '{name}': {hint}")


def located(text: str) -> str:
    """The same class by a name that holds in any directory."""
    file, _, name = text.rpartition(":")
    return f"{os.path.abspath(os.path.expanduser(file))}:{name}"


def _found(file: str, what: str, base: Path | None) -> Path:
    places = [base / file] if base else []
    for place in [*places, Path(file).expanduser()]:
        if place.is_file():
            return place.resolve()
    raise UserError(f"no file {file}: the {what} is FILE.py:CLASS, with the path of the file")


def _module(path: Path) -> ModuleType:
    """The file, imported once in a process. Its name is made of its path, so that two files of one
    name do not meet; dataclasses and pickles find it in `sys.modules`."""
    name = f"hnca_task_{hashlib.sha256(str(path).encode()).hexdigest()[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UserError(f"{path} cannot be imported: it must be a Python file")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise UserError(f"{path}{_line(error, path)}: {words_of(error)}") from None
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


def words_of(error: Any) -> str:
    """What kind of an error it is, and what it says, in a line."""
    return f"{type(error).__name__}: {first_line(error)}"
