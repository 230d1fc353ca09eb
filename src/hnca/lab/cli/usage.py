"""What is common to all commands: menus, and errors in one line."""

import re
import shlex
import shutil
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any

from ..errors import UserError


class UsageError(UserError):
    """A command line that does not parse."""


def program() -> str:
    """What to type for `hnca` here, where it may not be on the path (after `make demo`, say)."""
    if shutil.which("hnca"):
        return "hnca"
    called = Path(sys.argv[0])
    return shlex.quote(str(called)) if called.name == "hnca" else "python -m hnca"


def menu(
    prog: str, about: str, choices: Mapping[str, str], epilog: str, arguments: list[str]
) -> tuple[str | None, list[str]]:
    """The choice that comes first in the arguments, and what follows it; None when help was asked
    for and given."""
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
        raise UsageError(f"{prog}: '{chosen}' is none of {', '.join(choices)}")
    return chosen, rest


def parse(target: Any, prog: str, arguments: list[str], **options: Any) -> Any:
    """What tyro makes of the arguments. Its errors come in boxes of many lines; ours in one."""
    import tyro

    said = StringIO()
    try:
        with redirect_stderr(said):
            return tyro.cli(target, prog=prog, args=arguments, **options)
    except SystemExit as leaving:
        if leaving.code:
            raise UsageError(f"{_condensed(said.getvalue())} (see {prog} --help)") from None
        sys.stderr.write(said.getvalue())
        raise


def _condensed(box: str) -> str:
    """The message of a box: its first paragraph, and what was perhaps meant."""
    rows = [re.sub(r"\x1b\[[0-9;]*m", "", row).strip("│ ") for row in box.splitlines()]
    rows = [row for row in rows if row and row[0] not in "╭╰"]
    rules = [number for number, row in enumerate(rows) if row[0] == "─"] or [len(rows)]
    message = " ".join(rows[: rules[0]])
    for number, row in enumerate(rows[:-1]):
        if row.startswith("Perhaps you meant"):
            message += f"; perhaps you meant {rows[number + 1]}"
    return message
