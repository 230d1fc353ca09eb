"""Where a data set can be fetched from, one place after the other."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ..errors import UserError
from .cache import sha256
from .progress import bar


class SourceError(Exception):
    """A source that does not deliver; its message is why, in a few words."""


class Source(NamedTuple):
    """A place on the network, and how to get the four raw idx files from there.

    What `fetch` returns is not to be trusted before its hashes are checked. It raises
    `SourceError` if it cannot deliver."""

    label: str
    fetch: Callable[[], Mapping[str, bytes]]


def fetch_first(
    name: str,
    sources: Sequence[Source],
    expected: Mapping[str, str],
    tried: Sequence[str],
    say: Callable[[str], None],
) -> tuple[Mapping[str, bytes], str]:
    """The files with the expected hashes from the first source that has them, and its label.
    `tried` is where they were looked for before, for the message if no source has them."""
    failures = list(tried)
    for source in sources:
        say(f"{name}: trying {source.label}")
        try:
            with bar(f"{name}: {source.label}"):
                files = source.fetch()
            check_hashes(files, expected)
            return files, source.label
        except (SourceError, OSError) as error:  # the latter: no room for temporary files
            failures.append(f"{source.label} ({error})")
            say(f"{name}: {source.label} failed: {error}")
    remedy = "put the four idx files in a directory and pass --data-dir, or use --dataset glyphs"
    raise UserError(f"cannot get the data set '{name}': tried {'; '.join(failures)}; {remedy}")


def check_hashes(files: Mapping[str, bytes], expected: Mapping[str, str]) -> None:
    """Refuses anything but exactly these bytes."""
    found = sha256(files)
    for name, digest in expected.items():
        if name not in found:
            raise SourceError(f"{name} is missing")
        if found[name] != digest:
            raise SourceError(f"{name} has another SHA-256 than it should")


def one_line(text: str, limit: int = 160) -> str:
    """The line of a long complaint that a message can quote: the first that calls itself an error
    (as npm and apt put it), or else the last."""
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"(npm )?(error|err!|e:)", line, re.IGNORECASE)]
    line = (errors[:1] or lines[-1:] or ["no reason given"])[0]
    return line if len(line) <= limit else f"{line[:limit]}..."
