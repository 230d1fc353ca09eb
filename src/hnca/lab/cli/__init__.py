"""The command line. What a command needs is imported once it is chosen."""

import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

from ..errors import UsageError, UserError
from ..imported import is_named_class, words_of
from .usage import menu

COMMANDS = {
    "demo": "a minute of training, to see it work",
    "train": "train a network: the paper's experiments, or your own",
    "evaluate": "bound the likelihood of test images under a trained VAE",
    "generate": "a picture of what a trained VAE has learned",
    "compare": "measure which estimator suits your network",
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
Every command and every experiment explains itself with --help.

Data sets and compiled programs are kept in the user cache, or in HNCA_CACHE_DIR."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs a command and exits: 0 if all went well, 1 if not, 2 for a wrong command line, 130 and
    143 if it was interrupted, 141 if nobody reads what it prints any more."""
    warnings.showwarning = _show_warning
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    _open_streams()
    try:
        try:
            run(arguments)
        finally:
            sys.stdout.flush()  # here, so that what goes wrong with it is told below
    except UserError as error:
        _fail(str(error), 2 if isinstance(error, UsageError) else 1)
    except BrokenPipeError:  # of `hnca ... | head`: nobody is left to tell
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        only_told = not arguments or {"-h", "--help", "--version"} & set(arguments)
        sys.exit(0 if only_told else 128 + 13)  # as of any command that SIGPIPE has ended
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        _fail(f"{error.strerror or error}{where}", 1)
    except KeyboardInterrupt:
        _fail("interrupted", 130)
    except Exception as error:
        if os.environ.get("HNCA_TRACEBACK"):
            raise
        _fail(_unexpected(error, arguments), 1)
    sys.exit(0)


def run(arguments: list[str]) -> None:
    """Finds the command and hands over the rest of the line."""
    about = "hnca: credit assignment for networks of discrete stochastic units"
    command, rest = menu("hnca", about, COMMANDS, EPILOG, arguments)
    if command:
        import_module(f"{__name__}.{command}").main(rest)


def _unexpected(error: Exception, arguments: list[str]) -> str:
    """Where a class of the user's own takes part, the fault is more likely there than here."""
    own = [argument for argument in arguments if is_named_class(argument)]
    where, hint = "HNCA_TRACEBACK=1 shows where", "" if own else "; please report it"
    whose = f"{own[0]}: " if own else "unexpected "
    return f"{whose}{words_of(error)} ({where}{hint})"


def _open_streams() -> None:
    """A closed stream, as of `hnca ... >&-`, is None: what is printed there goes nowhere."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))


def _fail(message: str, code: int) -> NoReturn:
    print(f"error: {message}", file=sys.stderr)
    sys.exit(code)


def _show_warning(message, category, filename, lineno, file=None, line=None) -> None:
    print(f"warning: {message}", file=sys.stderr)
