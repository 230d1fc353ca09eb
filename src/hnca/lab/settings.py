"""Settings: the fields of a dataclass, as flags of the command line, as values of a plan, and as
they stand in a `config.json`. The types that a setting can have are listed in `KINDS`."""

import ast
import dataclasses
import inspect
import math
import textwrap
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from .errors import UserError


class Flag(NamedTuple):
    """How a setting stands on the command line, in `Annotated[Path, Flag(short="-o")]`."""

    short: str | None = None  # a second name, of one letter
    positional: bool = False  # known by its place, without a name
    metavar: str | None = None  # what stands for its value in help


class Setting(NamedTuple):
    """A field of a dataclass."""

    name: str
    kind: Any  # its type, without None
    default: Any  # or dataclasses.MISSING
    about: str  # the text below it in the source
    flag: Flag

    @property
    def spelled(self) -> str:
        """Its name on the command line."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def many(self) -> bool:
        return get_origin(self.kind) is tuple

    @property
    def single(self) -> Any:
        """The type of one value of several."""
        return get_args(self.kind)[0] if self.many else self.kind


class Kind(NamedTuple):
    """A type that a setting can have."""

    words: str  # for people
    metavar: str
    from_text: Callable[[str], Any]  # raises ValueError
    fits: Callable[[Any], bool]  # of a value from TOML or JSON


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError
    return number


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


KINDS: dict[Any, Kind] = {
    bool: Kind("true or false", "", bool, lambda value: isinstance(value, bool)),
    int: Kind(
        "a whole number",
        "INT",
        int,
        lambda value: isinstance(value, int) and not isinstance(value, bool),
    ),
    float: Kind("a number", "FLOAT", _finite, _is_number),
    str: Kind("a text", "TEXT", str, lambda value: isinstance(value, str)),
    Path: Kind("a path", "PATH", Path, lambda value: isinstance(value, str)),
}


def kind_of(single: Any) -> Kind:
    """What is known of the type of one value."""
    if get_origin(single) is Literal:
        choices = get_args(single)
        by_text = {str(choice): choice for choice in choices}
        listed = ", ".join(by_text)
        return Kind(
            f"one of {listed}", f"{{{','.join(by_text)}}}", _lookup(by_text), _among(choices)
        )
    return KINDS[single]


def _lookup(by_text: Mapping[str, Any]) -> Callable[[str], Any]:
    def find(text: str) -> Any:
        if text not in by_text:
            raise ValueError
        return by_text[text]

    return find


def _among(choices: tuple[Any, ...]) -> Callable[[Any], bool]:
    return lambda value: any(value == each and type(value) is type(each) for each in choices)


def settings_of(owner: type) -> list[Setting]:
    """The settings of a dataclass, in order. A field of a type that no setting can have is
    refused by name."""
    hints, about = get_type_hints(owner, include_extras=True), _texts(owner)
    found = []
    for field in dataclasses.fields(owner):
        kind, flag = _without_annotation(hints[field.name])
        kind = _without_none(kind)
        setting = Setting(field.name, kind, _default(field), about.get(field.name, ""), flag)
        if setting.single not in KINDS and get_origin(setting.single) is not Literal:
            allowed = ", ".join(each.__name__ for each in KINDS)
            raise UserError(
                f"{owner.__name__}.{field.name} has the type {hints[field.name]}: a setting can be "
                f"{allowed}, a Literal, a tuple of one of these, or None"
            )
        found.append(setting)
    return found


def _default(field: dataclasses.Field) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _without_annotation(hint: Any) -> tuple[Any, Flag]:
    if get_origin(hint) is not Annotated:
        return hint, Flag()
    kind, *notes = get_args(hint)
    return kind, next((note for note in notes if isinstance(note, Flag)), Flag())


def _without_none(kind: Any) -> Any:
    """`int | None` is an int that may be left out."""
    parts = [part for part in get_args(kind) if part is not NoneType]
    return parts[0] if NoneType in get_args(kind) and len(parts) == 1 else kind


def _texts(owner: type) -> dict[str, str]:
    """The text below each field, as it stands in the source of the class or of its parents."""
    found: dict[str, str] = {}
    for each in reversed(owner.__mro__):
        if not dataclasses.is_dataclass(each):
            continue
        try:
            [tree] = ast.parse(textwrap.dedent(inspect.getsource(each))).body
        except (OSError, SyntaxError, ValueError):  # a class without a source has no texts
            continue
        body = tree.body if isinstance(tree, ast.ClassDef) else []
        for field, text in pairwise(body):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                match text:
                    case ast.Expr(ast.Constant(str() as words)):
                        found[field.target.id] = " ".join(words.split())
    return found


def from_text(setting: Setting, text: str) -> Any:
    """One value of a setting from the command line."""
    kind = kind_of(setting.single)
    try:
        return kind.from_text(text)
    except ValueError:
        raise UserError(f"{setting.spelled} must be {kind.words}, not '{text}'") from None


def from_value(setting: Setting, value: Any, empty: bool = False) -> Any:
    """A setting from TOML or JSON, where a tuple is a list, or a single value. With `empty`, None
    will do where it is the default."""
    if value is None and empty and setting.default is None:
        return None
    kind = kind_of(setting.single)
    values: list[Any] = [value]
    if setting.many and isinstance(value, list | tuple):
        values = list(value)
    if not all(kind.fits(each) for each in values):
        several = ", or a list of such inside of the list" if setting.many else ""
        raise UserError(f"{setting.name} must be {kind.words}{several}, not {value!r}")
    typed = [setting.single(each) if setting.single in (float, Path) else each for each in values]
    return tuple(typed) if setting.many else typed[0]


def setting_named(settings: list[Setting], name: str, owner: str) -> Setting:
    """The setting with this name, or an error that lists them."""
    known = {setting.name: setting for setting in settings}
    if name not in known:
        close = get_close_matches(name, known, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise UserError(f"unknown setting '{name}': {hint}{owner} has {', '.join(known)}")
    return known[name]


def from_record(owner: type, record: Mapping[str, Any]) -> Any:
    """The dataclass with the settings of a `config.json`; what it does not say has its default."""
    settings = settings_of(owner)
    values = {
        name: from_value(setting_named(settings, name, owner.__name__), value, empty=True)
        for name, value in record.items()
    }
    return owner(**values)
