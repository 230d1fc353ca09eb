"""Files that are either as before or whole: written aside, then renamed."""

import json
import os
import shutil
from pathlib import Path
from typing import Any


def write_aside(path: Path, content: bytes) -> None:
    """Writes a file and waits until it is on the disk."""
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def write_whole(path: Path, content: bytes) -> None:
    """Puts a file in place of what was there, if anything."""
    aside = path.with_name(f".{path.name}.aside")
    write_aside(aside, content)
    os.replace(aside, path)


def write_json(path: Path, record: dict[str, Any]) -> None:
    """Puts a record in place, readable for people."""
    write_whole(path, (json.dumps(record, indent=2) + "\n").encode())


def move_directory(aside: Path, path: Path) -> None:
    """Puts a directory in place of what was there, if anything."""
    if path.exists():
        shutil.rmtree(path)
    os.replace(aside, path)
