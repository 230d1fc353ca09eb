"""A data set small enough to look at, and its files."""

from pathlib import Path

import numpy as np

from hnca.lab.data.idx import FILES, encode

RANDOM = np.random.default_rng(0)
ARRAYS = [
    RANDOM.integers(256, size=(5, 28, 28)).astype(np.uint8),
    np.array([0, 1, 2, 0, 1], np.uint8),
    RANDOM.integers(256, size=(2, 28, 28)).astype(np.uint8),
    np.array([2, 0], np.uint8),
]
RAW = dict(zip(FILES, map(encode, ARRAYS), strict=True))
OTHER = {**RAW, FILES[1]: encode(np.array([1, 1, 1, 1, 1], np.uint8))}


def put(directory: Path, files=RAW, suffix="", pack=lambda data: data, dot=False) -> Path:
    """Writes the files into a directory, in one of their usual spellings."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        spelt = name.replace("-idx", ".idx") if dot else name
        (directory / f"{spelt}{suffix}").write_bytes(pack(data))
    return directory


def flip(path: Path) -> None:
    """Damages a file by one bit."""
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
