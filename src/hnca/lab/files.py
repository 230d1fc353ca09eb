"""Files that are either as before or whole: written aside, then renamed; figures among them."""

import io
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .errors import UsageError, UserError

PICTURE_ENDINGS = ("png", "pdf", "svg", "jpg", "jpeg", "webp", "tif", "tiff", "eps", "ps")


def write_synced(path: Path, content: bytes, mode: str = "wb") -> None:
    """Writes a file and waits until it is on the disk. An error names the file."""
    try:
        with open(path, mode) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def write_whole(path: Path, content: bytes) -> None:
    """Puts a file in place of what was there, if anything."""
    aside = _aside(path)
    try:
        write_synced(aside, content)
        os.replace(aside, path)
    except OSError as error:  # named by the file that was meant
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        aside.unlink(missing_ok=True)


def write_json(path: Path, record: dict[str, Any]) -> None:
    """Puts a record in place, readable for people."""
    write_whole(path, (json.dumps(record, indent=2) + "\n").encode())


def check_picture(path: Path) -> None:
    """Refuses a file that no figure can be written to: before there is one, which takes a while."""
    if path.is_dir():
        raise UserError(f"{path} is a directory: name a file in it")
    if not path.parent.is_dir():
        raise UserError(f"{path}: there is no directory {path.parent}")
    _format(path)


def write_figure(path: Path, figure: Any, **options: Any) -> None:
    """Puts a matplotlib figure in place, in the format of the file's ending (PNG without one). Its
    texts are literal."""
    take_literally(figure)
    buffer = io.BytesIO()
    figure.savefig(buffer, format=_format(path), **options)
    write_whole(path, buffer.getvalue())


def take_literally(figure: Any) -> None:
    """Makes all texts of a matplotlib figure mean what they say: a `$` in the name of a data set
    begins no formula. Needed before the figure is laid out or drawn."""
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        text.set_parse_math(False)
        text.set_usetex(False)


def _format(path: Path) -> str:
    """By the file's ending."""
    ending = path.suffix[1:].lower() or "png"
    if ending not in PICTURE_ENDINGS:
        known = ", ".join(f".{each}" for each in PICTURE_ENDINGS)
        raise UsageError(f"{path}: a picture cannot be .{ending}: choose one of {known}")
    return ending


def _aside(path: Path) -> Path:
    return path.with_name(f".{path.name}.aside")


@contextmanager
def whole_directory(path: Path) -> Iterator[Path]:
    """A new directory to be filled, which then takes the place of what was there, if anything. If
    that fails, it is gone."""
    aside = _aside(path)
    shutil.rmtree(aside, ignore_errors=True)  # of a process that was killed while it wrote
    try:
        aside.mkdir(parents=True)
        yield aside
        _move_directory(aside, path)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _move_directory(aside: Path, path: Path) -> None:
    if path.exists():
        shutil.rmtree(path)
    os.replace(aside, path)
    parent = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(parent)  # so that the new name is on the disk, too
    finally:
        os.close(parent)
