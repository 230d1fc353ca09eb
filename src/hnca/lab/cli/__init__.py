"""The command line. What a command needs is imported once it is chosen."""

import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

from ..errors import UserError, first_line
from .usage import UsageError, menu

COMMANDS = {
    "demo": "a minute of training, to see it work",
    "train": "train a network: the paper's experiments",
    "evaluate": "bound the likelihood of test images under a trained VAE",
    "generate": "a picture of what a trained VAE has learned",
    "sweep": "many runs: the paper's figures and table, or a plan of your own",
    "report": "one page of many runs: means, figures, and the paper's numbers beside",
    "data": "fetch, list and look at data sets",
    "info": "versions, devices, kernel and places: what to paste into a bug report",
}
EPILOG = """\
First thing to try:
  hnca demo
then the paper's contextual bandit, in full:
  hnca train bandit --layers 3 --estimator hnca+baseline --out runs/b3
Every command and every experiment explains itself with --help."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs a command and exits: 0 if all went well, 1 if not, 2 for a wrong command line, 130 and
    143 if it was interrupted."""
    warnings.showwarning = _show_warning
    try:
        run(list(sys.argv[1:] if arguments is None else arguments))
    except UserError as error:
        _fail(str(error), 2 if isinstance(error, UsageError) else 1)
    except BrokenPipeError:  # of `hnca ... | head`: nobody is left to tell
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        _fail(f"{error.strerror or error}{where}", 1)
    except KeyboardInterrupt:
        _fail("interrupted", 130)
    except Exception as error:
        if os.environ.get("HNCA_TRACEBACK"):
            raise
        hint = "HNCA_TRACEBACK=1 shows where; please report it"
        _fail(f"unexpected {type(error).__name__}: {first_line(error)} ({hint})", 1)
    sys.exit(0)


def run(arguments: list[str]) -> None:
    """Finds the command and hands over the rest of the line."""
    about = "hnca: credit assignment for networks of discrete stochastic units"
    command, rest = menu("hnca", about, COMMANDS, EPILOG, arguments)
    if command:
        import_module(f"{__name__}.{command}").main(rest)


def _fail(message: str, code: int) -> NoReturn:
    print(f"error: {message}", file=sys.stderr)
    sys.exit(code)


def _show_warning(message, category, filename, lineno, file=None, line=None) -> None:
    print(f"warning: {message}", file=sys.stderr)
