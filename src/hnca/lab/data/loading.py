"""A data set by its name, from wherever it is: a directory, the cache, a source, a drawing."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path

from ..errors import UserError
from . import cache, idx
from .dataset import Dataset
from .glyphs import TEST, TRAIN, VERSION, glyphs
from .sources import KNOWN, NAMES, Known, SourceError

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
            if idx.find_files(place):
                return str(place)
    kept = GLYPHS if name == "glyphs" else name
    return CACHED if cache.holds(kept) else None


def _glyphs(say: Callable[[str], None]) -> Dataset:
    files = cache.read(GLYPHS)
    if files is not None:
        return _dataset("glyphs", files, CACHED)
    say("glyphs: drawing them")
    with _bar("Drawing glyphs", TRAIN + TEST) as advance:
        drawn = glyphs(advance=advance)
    arrays = (drawn.train_images, drawn.train_labels, drawn.test_images, drawn.test_labels)
    cache.write(GLYPHS, dict(zip(idx.FILES, map(idx.encode, arrays), strict=True)))
    return drawn


def _known(known: Known, given: Path | None, say: Callable[[str], None]) -> Dataset:
    tried = []
    if given is not None:
        for place in _places(given, known.name):
            if (files := idx.read_files(place)) is not None:
                _check_given(files, known, place)
                return _dataset(known.name, files, str(place))
        tried.append(f"{given} (none of the files)")
    if (files := cache.read(known.name, known.expected)) is not None:
        return _dataset(known.name, files, CACHED)
    tried.append(f"{CACHED} (not there)")
    files, source = _fetch_first(known, tried, say)
    cache.write(known.name, files)
    return _dataset(known.name, files, source)


def _own(directory: Path) -> Dataset:
    """Anyone's files: no hash is known, but they have to fit each other."""
    files = idx.read_files(directory)
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


def _fetch_first(
    known: Known, tried: Sequence[str], say: Callable[[str], None]
) -> tuple[Mapping[str, bytes], str]:
    """The files with the right hashes from the first source that has them, and its label. `tried`
    is where they were looked for before, for the message if no source has them."""
    failures, name = list(tried), known.name
    for source in known.sources:
        say(f"{name}: trying {source.label}")
        try:
            with _bar(f"{name}: {source.label}"):
                files = source.fetch(known.sizes)
            check_hashes(files, known.expected)
            return files, source.label
        except (SourceError, OSError) as error:  # the latter: no room for temporary files
            failures.append(f"{source.label} ({error})")
            say(f"{name}: {source.label} failed: {error}")
    remedy = "put the four idx files in a directory and pass --data-dir, or use --dataset glyphs"
    raise UserError(f"cannot get the data set '{name}': tried {'; '.join(failures)}; {remedy}")


def check_hashes(files: Mapping[str, bytes], expected: Mapping[str, str]) -> None:
    """Refuses anything but exactly these bytes."""
    found = cache.sha256(files)
    for name, digest in expected.items():
        if name not in found:
            raise SourceError(f"{name} is missing")
        if found[name] != digest:
            raise SourceError(f"{name} has another SHA-256 than it should")


@contextmanager
def _bar(what: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """A progress bar on a terminal, nothing elsewhere; gives the function that advances it.
    Without a total, it is a spinner."""
    if not sys.stderr.isatty():
        yield lambda amount: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    spinner = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    columns = spinner if total is None else Progress.get_default_columns()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda amount: progress.advance(task, amount)
