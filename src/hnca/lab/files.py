"""Files that are either as before or whole: written aside, then renamed."""

import io
import json
import os
import shutil
from pathlib import Path
from typing import Any


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
    aside = path.with_name(f".{path.name}.aside")
    write_synced(aside, content)
    os.replace(aside, path)


def write_json(path: Path, record: dict[str, Any]) -> None:
    """Puts a record in place, readable for people."""
    write_whole(path, (json.dumps(record, indent=2) + "\n").encode())


def write_figure(path: Path, figure: Any, **options: Any) -> None:
    """Puts a matplotlib figure in place, in the format of the file's ending (PNG without one)."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=path.suffix[1:] or "png", **options)
    write_whole(path, buffer.getvalue())


def move_directory(aside: Path, path: Path) -> None:
    """Puts a directory in place of what was there, if anything."""
    if path.exists():
        shutil.rmtree(path)
    os.replace(aside, path)
    parent = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(parent)  # so that the new name is on the disk, too
    finally:
        os.close(parent)
