"""A data set by its name."""

import os
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path

from ..errors import UserError
from . import cache, idx
from .dataset import Dataset
from .drawing import VERSION, glyphs
from .registry import KNOWN, NAMES, Known
from .sources import SourceError, check_hashes, fetch_first

CACHED = "the user cache"  # as a source, for people
GLYPHS = f"glyphs-v{VERSION}"  # their name in the cache


def _silent(line: str) -> None:
    pass


def load(
    name: str, directory: Path | None = None, *, say: Callable[[str], None] = _silent
) -> Dataset:
    """The data set `mnist`, `fashion-mnist`, `glyphs`, or that of a directory of four idx files.

    A public one is looked for in `directory` (or else in `HNCA_DATA_DIR`), directly or in a
    subdirectory of its name; then in the user cache; then at its sources on the network, after
    which it is kept in the cache. Whatever the place, its bytes are checked. `say` is told, line
    by line, what is being tried."""
    if name == "glyphs":
        return _glyphs(say)
    if name in KNOWN:
        return _known(KNOWN[name], _given(directory), say)
    if name and os.path.isdir(Path(name).expanduser()):
        return _own(Path(name).expanduser())
    close = get_close_matches(name, NAMES, n=1)
    hint = f"did you mean '{close[0]}'? " if close else ""
    allowed = f"one of {', '.join(NAMES)}, or a directory with the four idx files"
    raise UserError(f"no data set '{name}': {hint}it has to be {allowed}")


def whereabouts(name: str, directory: Path | None = None) -> str | None:
    """Where `load` would take a named data set from without a network, by a glance at the file
    names; None if it would have to be fetched or drawn."""
    if name in KNOWN and (given := _given(directory)):
        for place in _places(given, name):
            if idx.find(place):
                return str(place)
    kept = GLYPHS if name == "glyphs" else name
    return CACHED if cache.holds(kept) else None


def _glyphs(say: Callable[[str], None]) -> Dataset:
    files = cache.read(GLYPHS)
    if files is not None:
        return _dataset("glyphs", files, CACHED)
    say("glyphs: drawing them")
    drawn = glyphs()
    arrays = (drawn.train_images, drawn.train_labels, drawn.test_images, drawn.test_labels)
    cache.write(GLYPHS, dict(zip(idx.FILES, map(idx.encode, arrays), strict=True)))
    return drawn


def _known(known: Known, given: Path | None, say: Callable[[str], None]) -> Dataset:
    tried = []
    if given is not None:
        for place in _places(given, known.name):
            if (files := idx.read(place)) is not None:
                _check_given(files, known, place)
                return _dataset(known.name, files, str(place))
        tried.append(f"{given} (none of the files)")
    if (files := cache.read(known.name, known.expected)) is not None:
        return _dataset(known.name, files, CACHED)
    tried.append(f"{CACHED} (not there)")
    files, source = fetch_first(known.name, known.sources, known.expected, tried, say)
    cache.write(known.name, files)
    return _dataset(known.name, files, source)


def _own(directory: Path) -> Dataset:
    """Anyone's files: no hash is known, but they have to fit each other."""
    files = idx.read(directory)
    if files is None:
        wanted = ", ".join(idx.FILES)
        raise UserError(f"{directory}: no data set here; it takes the idx files {wanted}")
    return _dataset(directory.resolve().name, files, str(directory))


def _given(directory: Path | None) -> Path | None:
    """The directory that the user named for the public data sets, by argument or environment."""
    who = "--data-dir"
    if directory is None:
        if not (variable := os.environ.get("HNCA_DATA_DIR")):
            return None
        who, directory = "HNCA_DATA_DIR", Path(variable)
    directory = directory.expanduser()
    if not os.path.isdir(directory):
        raise UserError(f"{who}: no directory {directory}")
    return directory


def _places(given: Path, name: str) -> tuple[Path, Path]:
    return given / name, given


def _check_given(files: Mapping[str, bytes], known: Known, place: Path) -> None:
    try:
        check_hashes(files, known.expected)
    except SourceError as error:
        remedy = f"to train on other files, name the directory as data set: --dataset {place}"
        raise UserError(f"{place} is not {known.name}: {error}; {remedy}") from None


def _dataset(name: str, files: Mapping[str, bytes], source: str) -> Dataset:
    train_images, train_labels, test_images, test_labels = idx.decode_all(files, source)
    return Dataset(name, train_images, train_labels, test_images, test_labels, source)
