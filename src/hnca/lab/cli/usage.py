"""What is common to all commands: menus, flags made from dataclasses, errors in one line, and runs
that are read again."""

import argparse
import inspect
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import MISSING
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

from ..errors import UsageError, UserError
from ..settings import Setting, from_text, kind_of, settings_of

if TYPE_CHECKING:
    from ..training import RunDirectory
    from ..training.evaluation import TrainedRun

Presets = Mapping[str, Mapping[str, Any]]  # settings that are other defaults, by the preset's name


def read_run(directory: "RunDirectory", task: str | None, data_dir: Path | None) -> "TrainedRun":
    """A trained run, by the experiment that --task names if it is one of the user's own."""
    from ..experiments import experiment_class
    from ..training import read_trained

    return read_trained(directory, None if task is None else experiment_class(task), data_dir)


def program() -> str:
    """What to type for `hnca` here, where it may not be on the path (after `make demo`, say)."""
    if shutil.which("hnca"):
        return "hnca"
    called = Path(sys.argv[0])
    return shlex.quote(str(called)) if called.name == "hnca" else "python -m hnca"


def menu(
    prog: str,
    about: str,
    choices: Mapping[str, str],
    epilog: str,
    arguments: list[str],
    hint: str = "",
) -> tuple[str | None, list[str]]:
    """The choice that comes first in the arguments, and what follows it; None when help was asked
    for and given. `hint` ends the error about a choice that is none."""
    chosen, rest = (arguments[0], arguments[1:]) if arguments else ("--help", [])
    if chosen in ("-h", "--help"):
        lines = [f"  {name:14}{summary}" for name, summary in choices.items()]
        print("\n".join([about, "", f"usage: {prog} COMMAND ...", "", *lines, "", epilog]))
        return None, []
    if chosen == "--version":
        from ... import __version__

        print(f"hnca {__version__}")
        return None, []
    if chosen not in choices:
        raise UsageError(f"{prog}: '{chosen}' is none of {', '.join(choices)}{hint}")
    return chosen, rest


def parse(target: type, prog: str, arguments: list[str], description: str | None = None) -> Any:
    """The dataclass, with its fields from the command line."""
    [given] = parse_given([target], prog, arguments, description or about(target))
    return target(**given)


def parse_given(
    targets: Sequence[type],
    prog: str,
    arguments: list[str],
    description: str,
    presets: Presets = MappingProxyType({}),
    choices: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> list[dict[str, Any]]:
    """For each of the dataclasses, the fields that the command line gives, and no others: what it
    leaves open is up to the caller, who may have other defaults than the class. Help lists the
    `choices` of a setting."""
    parser = _Parser(
        prog=prog,
        description=inspect.cleandoc(description),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
    )
    groups = {target: settings_of(target) for target in targets}
    for target, settings in groups.items():
        group = parser.add_argument_group(_heading(target)) if len(groups) > 1 else parser
        for setting in settings:
            _add(group, setting, _help(setting, presets, choices.get(setting.name, ())))
    given = vars(parser.parse_args(arguments))
    return [
        {setting.name: given[setting.name] for setting in settings if setting.name in given}
        for settings in groups.values()
    ]


class _Parser(argparse.ArgumentParser):
    """One line for each error, and a hint where a flag is nearly right."""

    def parse_args(self, args=None, namespace=None):  # pyright: ignore
        found, unknown = self.parse_known_args(args, namespace)
        if unknown:
            close = get_close_matches(unknown[0], self._option_string_actions, n=1)
            hint = f"; perhaps you meant {close[0]}" if close else ""
            self.error(f"unknown {shlex.join(unknown)}{hint}")
        return found

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see {self.prog} --help)")


def _heading(target: type) -> str:
    """The first sentence about a group of flags."""
    return about(target).partition(".")[0].partition(";")[0].strip()


def about(target: type) -> str:
    """What a class says of itself, or its name. A dataclass that says nothing has its signature as
    docstring, which is not for readers."""
    text = (target.__doc__ or "").strip()
    return target.__name__ if not text or text.startswith(f"{target.__name__}(") else text


def _add(group: Any, setting: Setting, words: str) -> None:
    """A flag, or a place in the line, for a setting."""
    kind, flag = kind_of(setting.single), setting.flag
    options: dict[str, Any] = {"help": words.replace("%", "%%")}
    if setting.single is bool:
        action = argparse.BooleanOptionalAction
        group.add_argument(setting.spelled, action=action, **options)
        return
    options["type"] = partial(_typed, setting)
    options["metavar"] = flag.metavar or kind.metavar
    required = setting.default is MISSING
    if setting.many:
        options |= {"nargs": "+" if required or not flag.positional else "*", "action": _AsTuple}
    if flag.positional:
        group.add_argument(setting.name, **options)
    else:
        names = [flag.short, setting.spelled] if flag.short else [setting.spelled]
        group.add_argument(*names, dest=setting.name, required=required, **options)


class _AsTuple(argparse.Action):
    def __call__(self, parser, namespace, values, option_string=None) -> None:
        setattr(namespace, self.dest, tuple(values or ()))


def _typed(setting: Setting, text: str) -> Any:
    try:
        return from_text(setting, text)
    except UserError as error:
        raise UsageError(str(error)) from None


def _help(setting: Setting, presets: Presets, choices: Sequence[str]) -> str:
    """What the setting is, what it can be, and its defaults where they say anything."""
    others = {name: other[setting.name] for name, other in presets.items() if setting.name in other}
    silent = (None, (), MISSING)
    defaults = [] if setting.default in silent else [f"default: {_shown(setting.default)}"]
    defaults += [f"{name}: {_shown(value)}" for name, value in others.items()]
    listed = f" One of {', '.join(choices)}." if choices else ""
    return setting.about + listed + (f" ({'; '.join(defaults)})" if defaults else "")


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
