"""Data sets: what is read, from where, in which order, and what is refused."""

import gzip
import os
import struct
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from hnca.lab.cli.data import main
from hnca.lab.data import Dataset, cache, draw_examples, load, whereabouts
from hnca.lab.data.idx import FILES, decode, encode
from hnca.lab.data.loading import check_hashes
from hnca.lab.data.pictures import grid
from hnca.lab.data.sources import FASHION, KNOWN, MNIST, Source, SourceError
from hnca.lab.errors import UserError
from tiny_data import ARRAYS, OTHER, RANDOM, RAW, flip, put


@pytest.fixture(autouse=True)
def own_machine(tmp_path, monkeypatch):
    """No test sees the data of the machine it runs on."""
    monkeypatch.setenv("HNCA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("HNCA_DATA_DIR", raising=False)


@pytest.fixture
def mnist(monkeypatch):
    """Makes a tiny MNIST with these sources, and returns the list of those that were asked."""

    def install(*contents):
        asked = []

        def fetch(number, sizes):
            assert sizes == MNIST.sizes
            asked.append(number)
            if isinstance(contents[number], Exception):
                raise contents[number]
            return contents[number]

        sources = [Source(f"source {n}", partial(fetch, n)) for n in range(len(contents))]
        hashes = tuple(cache.sha256(RAW).values())
        monkeypatch.setitem(KNOWN, "mnist", MNIST._replace(sha256=hashes, sources=tuple(sources)))
        return asked

    return install


def refusal(*arguments) -> str:
    with pytest.raises(UserError) as error:
        load(*arguments)
    assert "\n" not in str(error.value)
    return str(error.value)


# The format


@pytest.mark.parametrize("shape", [(1,), (7,), (3, 4), (2, 28, 28), (0, 28, 28)])
def test_idx_round_trip(shape):
    array = RANDOM.integers(256, size=shape).astype(np.uint8)
    data = encode(array)
    assert data[:4] == bytes([0, 0, 8, len(shape)])
    np.testing.assert_array_equal(decode(data, "here"), array)


@pytest.mark.parametrize("dot", [False, True])
@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("pack", [gzip.compress, bytes])
def test_own_directory(tmp_path, suffix, pack, dot):
    """Packed or not is told by the content: browsers unpack files and keep their names."""
    dataset = load(str(put(tmp_path / "mine", RAW, suffix, pack, dot)))
    assert (dataset.name, dataset.source) == ("mine", str(tmp_path / "mine"))
    assert (dataset.classes, dataset.pixels) == (3, 784)
    fields = ("train_images", "train_labels", "test_images", "test_labels")
    for field, array in zip(fields, ARRAYS, strict=True):
        np.testing.assert_array_equal(getattr(dataset, field), array)


def images(count, height=28, width=28):
    return encode(np.zeros((count, height, width), np.uint8))


MALFORMED = {
    "train-images-idx3-ubyte: its header says .* 3,936 bytes, but it has 3,935": {
        FILES[0]: RAW[FILES[0]][:-1]
    },
    "train-images-idx3-ubyte: its header says .* but it has 3,937": {
        FILES[0]: RAW[FILES[0]] + b"\0"
    },
    "train-labels-idx1-ubyte: not an idx file of bytes: it starts with 89 50 4e 47": {
        FILES[1]: b"\x89PNG\r\n"
    },
    "t10k-images-idx3-ubyte: not an idx file of bytes: it starts with 00 00 0d 03": {
        FILES[2]: struct.pack(">HBB3I", 0, 13, 3, 1, 1, 1) + bytes(4)
    },
    "t10k-labels-idx1-ubyte: not an idx file: only 2 bytes": {FILES[3]: b"\0\0"},
    "t10k-images-idx3-ubyte: cut off in its header, at 9 bytes": {FILES[2]: images(2)[:9]},
    "train-images-idx3-ubyte: damaged gzip": {FILES[0]: gzip.compress(RAW[FILES[0]])[:-20]},
    "t10k-labels-idx1-ubyte: damaged gzip": {FILES[3]: b"\x1f\x8b but not really"},
    "4 training images, but 5 labels": {FILES[0]: images(4)},
    "2 test images, but 5 labels": {FILES[3]: RAW[FILES[1]]},
    "training images have 28x28 pixels, but test images 28x27": {FILES[2]: images(2, 28, 27)},
    r"test images and labels must be .* not \[2\] and \[2\]": {FILES[2]: RAW[FILES[3]]},
    "no test images": {FILES[2]: images(0), FILES[3]: encode(np.zeros(0, np.uint8))},
}


@pytest.mark.parametrize("message", MALFORMED)
def test_malformed_files(tmp_path, message):
    mine = put(tmp_path / "mine", {**RAW, **MALFORMED[message]})
    with pytest.raises(UserError, match=message) as error:
        load(str(mine))
    assert str(mine) in str(error.value)
    assert "\n" not in str(error.value)


def test_missing_files(tmp_path):
    assert "no data set here; it takes the idx files train-images-idx3" in refusal(str(tmp_path))
    put(tmp_path, {FILES[0]: RAW[FILES[0]], FILES[3]: RAW[FILES[3]]})
    missing = "missing train-labels-idx1-ubyte, t10k-images-idx3-ubyte"
    assert refusal(str(tmp_path)).startswith(f"{tmp_path}: {missing}")


@pytest.mark.parametrize("name", ["", "mnits", "no/such/place"])
def test_unknown_name(name):
    message = refusal(name)
    assert f"no data set '{name}'" in message
    assert "mnist, fashion-mnist, glyphs, or a directory with the four idx files" in message
    assert ("did you mean 'mnist'?" in message) == (name == "mnits")


# The fingerprint


def test_fingerprint(tmp_path):
    """The same from every source; another for any other byte, or the same bytes in other shapes."""
    prints = [
        load(str(put(tmp_path / "a"))).fingerprint,
        load(str(put(tmp_path / "b", RAW, ".gz", gzip.compress))).fingerprint,
        Dataset("made", *ARRAYS, source="memory").fingerprint,
        Dataset("made", *[np.asfortranarray(array) for array in ARRAYS], source="").fingerprint,
    ]
    assert len(set(prints)) == 1
    wide = [array.reshape(-1, 14, 56) if array.ndim == 3 else array for array in ARRAYS]
    changed = [array.copy() for array in ARRAYS]
    changed[3][1] += 1
    others = [Dataset("other", *arrays, source="").fingerprint for arrays in (wide, changed)]
    assert len({prints[0], *others}) == 3


def test_floats_are_refused():
    with pytest.raises(UserError, match="training images and labels must be bytes"):
        Dataset("floats", ARRAYS[0] / 255, *ARRAYS[1:], source="memory")


def test_known_sizes_are_those_of_the_arrays():
    for known in (MNIST, FASHION):
        assert list(known.sizes.values()) == [
            len(encode(np.broadcast_to(np.uint8(0), shape)))
            for count in (60_000, 10_000)
            for shape in ((count, 28, 28), (count,))
        ]


# The order of places


def test_sources_in_order(mnist):
    asked = mnist(SourceError("no network"), OTHER, RAW, RAW)
    said = []
    dataset = load("mnist", say=said.append)
    assert asked == [0, 1, 2]
    assert dataset.source == "source 2"
    assert said[:2] == ["mnist: trying source 0", "mnist: source 0 failed: no network"]
    again = load("mnist")
    assert (asked, again.source) == ([0, 1, 2], "the user cache")
    assert again.fingerprint == dataset.fingerprint


def test_all_sources_fail(mnist, tmp_path):
    mnist(SourceError("cannot be reached"), OTHER, {FILES[0]: RAW[FILES[0]]})
    message = refusal("mnist", tmp_path)
    assert f"tried {tmp_path} (none of the files); the user cache (not there); " in message
    assert "source 0 (cannot be reached); " in message
    assert "source 1 (train-labels-idx1-ubyte has another SHA-256 than it should); " in message
    assert "source 2 (train-labels-idx1-ubyte is missing); " in message
    remedy = "put the four idx files in a directory and pass --data-dir, or use --dataset glyphs"
    assert message.endswith(remedy)
    assert not (tmp_path / "cache").exists()


def test_directory_before_cache_before_sources(mnist, tmp_path, monkeypatch):
    asked = mnist(RAW)
    put(tmp_path / "given" / "mnist", RAW, ".gz", gzip.compress)
    put(tmp_path / "given", OTHER)  # the subdirectory of the name is what was meant
    put(tmp_path / "environment")
    assert load("mnist", tmp_path / "given").source == str(tmp_path / "given" / "mnist")
    monkeypatch.setenv("HNCA_DATA_DIR", str(tmp_path / "environment"))
    assert whereabouts("mnist") == load("mnist").source == str(tmp_path / "environment")
    assert load("mnist", tmp_path / "given").source == str(tmp_path / "given" / "mnist")
    assert asked == []
    monkeypatch.setenv("HNCA_DATA_DIR", str(tmp_path))
    assert whereabouts("mnist") is None
    assert load("mnist").source == "source 0"
    assert whereabouts("mnist") == load("mnist").source == "the user cache"
    assert asked == [0]


def test_directory_with_other_files(mnist, tmp_path, monkeypatch):
    asked = mnist(RAW)
    other = put(tmp_path / "other", OTHER)
    message = refusal("mnist", other)
    assert message.startswith(f"{other} is not mnist: train-labels-idx1-ubyte has another SHA-256")
    assert message.endswith(f"name the directory as data set: --dataset {other}")
    assert refusal("mnist", tmp_path / "typo") == f"--data-dir: no directory {tmp_path / 'typo'}"
    monkeypatch.setenv("HNCA_DATA_DIR", str(tmp_path / "typo"))
    assert refusal("mnist") == f"HNCA_DATA_DIR: no directory {tmp_path / 'typo'}"
    assert asked == []


def test_named_hashes_are_those_of_real_files():
    """A tiny set does not pass for MNIST, nor MNIST for Fashion-MNIST."""
    for known in (MNIST, FASHION):
        with pytest.raises(SourceError, match="another SHA-256"):
            check_hashes(RAW, known.expected)
    hashes = MNIST.sha256 + FASHION.sha256
    assert len(set(hashes)) == 8
    assert all(len(bytes.fromhex(digest)) == 32 for digest in hashes)


# The cache


def test_damaged_cache_is_fetched_anew(mnist, tmp_path):
    asked = mnist(RAW)
    load("mnist")
    flip(tmp_path / "cache" / "mnist" / FILES[2])
    with pytest.warns(UserWarning, match=r"cache/mnist is damaged \(wrong SHA-256\)"):
        assert load("mnist").source == "source 0"
    assert load("mnist").source == "the user cache"
    assert asked == [0, 0]


def test_incomplete_cache_is_no_cache(mnist, tmp_path):
    asked = mnist(RAW)
    load("mnist")
    (tmp_path / "cache" / "mnist" / FILES[3]).unlink()
    assert whereabouts("mnist") is None
    assert load("mnist").source == "source 0"
    assert asked == [0, 0]


def test_nothing_is_left_beside_the_cache(mnist, tmp_path):
    mnist(RAW)
    load("mnist")
    assert os.listdir(tmp_path / "cache") == ["mnist"]
    assert set(os.listdir(tmp_path / "cache" / "mnist")) == {*FILES, "SHA256SUMS"}


@pytest.mark.parametrize("stop", [*FILES, cache.SUMS])
def test_interrupted_write(mnist, tmp_path, monkeypatch, stop):
    """Stopped in the middle, at any file: the next one starts anew and needs no help."""
    asked = mnist(RAW)
    replace = os.replace

    def stopping(source, target):
        if target.name == stop:
            raise KeyboardInterrupt
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", stopping)
        with pytest.raises(KeyboardInterrupt):
            load("mnist")
    assert load("mnist").source == ("source 0" if stop in FILES else "the user cache")
    assert load("mnist").source == "the user cache"
    assert len(asked) == (2 if stop in FILES else 1)
    assert os.listdir(tmp_path / "cache") == ["mnist"]


def test_unwritable_cache(mnist, tmp_path, monkeypatch):
    mnist(RAW)
    (tmp_path / "file").touch()
    monkeypatch.setenv("HNCA_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with pytest.warns(UserWarning, match=r"cannot keep .* in .*/file/cache/mnist .* going on"):
        assert load("mnist").source == "source 0"


def test_cache_directory(monkeypatch):
    monkeypatch.setenv("HNCA_CACHE_DIR", "~/here")
    assert cache.cache_directory() == Path.home() / "here"
    monkeypatch.delenv("HNCA_CACHE_DIR")
    assert cache.cache_directory().name == "hnca"


# The pictures and the command line


def test_grid():
    picture = grid(Dataset("tiny", *ARRAYS, source=""), columns=2)
    assert picture.shape == (3 * 29 - 1, 2 * 29 - 1)
    np.testing.assert_array_equal(picture[:28, :28], ARRAYS[0][0])
    np.testing.assert_array_equal(picture[29:57, 29:], ARRAYS[0][4])
    assert (picture[58:, 29:] == 64).all()  # there is only one picture of the third class


def test_show(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    put(tmp_path / "mine")
    main(["show", "mine"])
    main(["show", "mine", "-o", "other.png", "--columns", "1"])
    assert capsys.readouterr().out == "wrote mine.png\nwrote other.png\n"
    sizes = []
    for name in ("mine.png", "other.png"):
        data = Path(name).read_bytes()
        assert data.startswith(b"\x89PNG\r\n\x1a\n")
        sizes.append(struct.unpack(">II", data[16:24]))
    assert sizes[0][0] > sizes[1][0] > 50
    with pytest.raises(UserError, match=r"--columns must be from 1 to 500, not 0"):
        main(["show", "mine", "--columns", "0"])
    with pytest.raises(FileNotFoundError, match=r"no/such/"):
        draw_examples(load("mine"), Path("no/such/place.png"))


def test_fetch_and_list(mnist, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    mnist(RAW)
    main(["list"])
    assert "not here yet" in line_of("mnist", capsys)
    main(["fetch", "mnist"])
    said = capsys.readouterr().out
    assert "mnist: 5 + 2 images, from source 0" in said
    assert Dataset("mnist", *ARRAYS, source="").fingerprint in said
    main(["list"])
    assert "the user cache" in line_of("mnist", capsys)


def line_of(name: str, capsys) -> str:
    return next(line for line in capsys.readouterr().out.splitlines() if f" {name} " in line)


def test_import_is_light():
    heavy = "{'matplotlib', 'pooch', 'requests', 'rich'}"
    script = f"import hnca.lab.data, sys; print({heavy} & set(sys.modules))"
    printed = subprocess.check_output([sys.executable, "-c", script], text=True)
    assert printed == "set()\n"
