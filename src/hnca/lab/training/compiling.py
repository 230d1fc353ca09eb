"""Compiling: in a thread of its own, as nobody can interrupt it, and with a cache on the disk."""

import os
import re
import sys
import threading
import warnings
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from glob import escape
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import jax

from ..data.cache import cache_directory

Made = TypeVar("Made")

THREAD = "hnca-compiling"
LOOK = 0.02  # seconds until someone who waits looks around again
# JAX says this of an entry that is cut short, or that it could not write to its end.
BAD_ENTRY = re.compile(r"Error \w+ persistent compilation cache entry for '(.+?)'")


def elsewhere(make: Callable[[], Made], look: Callable[[], None]) -> Made:
    """What is made in another thread, while this one hears signals and looks around: inside of the
    compiler it would not. If this one leaves, the other goes on; see `leave`."""
    made: list[Made] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            made.append(make())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, name=THREAD, daemon=True)
    thread.start()
    while thread.is_alive():
        look()
        thread.join(LOOK)
    if failed:
        raise failed[0]
    return made[0]


def leave(code: int) -> NoReturn:
    """Ends the process. Where the compiler is still at work, it cannot be waited for, nor can it
    stand that all is taken down around it."""
    if any(thread.name == THREAD for thread in threading.enumerate()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    raise SystemExit(code)


def keep_compiled() -> None:
    """From now on, compiled programs are read from the user's cache, where they are there, unless
    the user has chosen another place for them. An entry that is no good is deleted."""
    if jax.config.jax_compilation_cache_dir is None:  # pyright: ignore[reportAttributeAccessIssue]
        jax.config.update("jax_compilation_cache_dir", str(cache_directory() / "compiled"))
    warnings.filterwarnings("always", BAD_ENTRY.pattern, UserWarning)  # each is another entry
    if getattr(warnings.showwarning, "func", None) is not _show:
        warnings.showwarning = partial(_show, warnings.showwarning)


def _show(shown: Callable[..., None], message: Any, *where: Any, **more: Any) -> None:
    """Shows a warning; in place of JAX's about an entry, which would come again and again, that
    the entry is gone."""
    about = BAD_ENTRY.match(str(message))
    for path in _cut_short(about[1]) if about else ():
        path.unlink(missing_ok=True)
        message = UserWarning(
            f"the compiled program {path} was cut short: deleted, to be made anew"
        )
    shown(message, *where, **more)


def _cut_short(module: str) -> list[Path]:
    """The entries of this name that cannot be unpacked as JAX does it."""
    directory = Path(jax.config.jax_compilation_cache_dir or "")  # pyright: ignore
    unpack, found = _unpacker(), []
    for path in directory.glob(f"{escape(module)}-*-cache"):
        try:
            unpack(path.read_bytes())
        except Exception:  # each of the formats has errors of its own
            found.append(path)
    return found


def _unpacker() -> Callable[[bytes], bytes]:
    """Of the format that JAX chooses, by what is installed."""
    with suppress(ImportError):
        return import_module("compression.zstd").decompress
    with suppress(ImportError):
        return import_module("zstandard").ZstdDecompressor().decompress
    return zlib.decompress
