"""Data sets kept on this machine, so that each is fetched or drawn once.

A data set is a directory of the four raw idx files, and their SHA-256 in the format that
`sha256sum -c` reads. Every file is written aside and renamed: an interrupted or a second process
never leaves half a file, and what is damaged otherwise is found by its hash and replaced."""

import hashlib
import os
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path

from .idx import FILES

SUMS = "SHA256SUMS"


def cache_directory() -> Path:
    """`HNCA_CACHE_DIR`, or the user's cache directory by the custom of the operating system."""
    if given := os.environ.get("HNCA_CACHE_DIR"):
        return Path(given).expanduser()
    import platformdirs

    return platformdirs.user_cache_path("hnca", appauthor=False)


def sha256(files: Mapping[str, bytes]) -> dict[str, str]:
    """The hash of each file."""
    return {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}


def holds(name: str) -> bool:
    """Whether the cache has all files of a data set, by a glance at the directory."""
    return all(os.path.isfile(cache_directory() / name / file) for file in FILES)


def read(name: str, expected: Mapping[str, str] | None = None) -> dict[str, bytes] | None:
    """The four files of a data set; None if they are not here, and, with a warning, if they are
    not what they should be: the expected hashes, or else those written with them."""
    directory = cache_directory() / name
    try:
        files = {file: (directory / file).read_bytes() for file in FILES}
        sums = _parsed((directory / SUMS).read_text()) if expected is None else dict(expected)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        _warn(f"the cached data set {directory} cannot be read ({error}): making it anew")
        return None
    if sha256(files) != sums:
        _warn(f"the cached data set {directory} is damaged (wrong SHA-256): making it anew")
        return None
    return files


def write(name: str, files: Mapping[str, bytes]) -> None:
    """Keeps the files, or warns that it cannot."""
    directory = cache_directory() / name
    sums = "".join(f"{digest}  {file}\n" for file, digest in sha256(files).items())
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=directory.parent, prefix=".partial-") as aside:
            for file, data in {**files, SUMS: sums.encode()}.items():
                partial = Path(aside) / file
                partial.write_bytes(data)
                os.replace(partial, directory / file)
    except OSError as error:
        _warn(f"cannot keep the data set in {directory} ({error.strerror}): going on without")


def _parsed(sums: str) -> dict[str, str]:
    return {file: digest for digest, file in (line.split() for line in sums.splitlines())}


def _warn(message: str) -> None:
    warnings.warn(message, stacklevel=3)
