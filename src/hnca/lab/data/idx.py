"""The idx format: arrays of bytes with a big-endian header of their shape."""

import gzip
import io
import math
import os
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ..errors import UserError

# The four files of a data set, in the order of `Dataset`'s fields.
FILES: tuple[str, ...] = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
BYTE = 8  # the code for unsigned bytes, the only element type of these data sets


def encode(array: np.ndarray) -> bytes:
    """The array as an idx file."""
    header = struct.pack(f">HBB{array.ndim}I", 0, BYTE, array.ndim, *array.shape)
    return header + np.ascontiguousarray(array, np.uint8).tobytes()


def decode(data: bytes, where: str) -> np.ndarray:
    """The array in an idx file; `where` names the file if it has to be refused."""
    if len(data) < 4:
        raise UserError(f"{where}: not an idx file: only {len(data)} bytes")
    zero, element, dimensions = struct.unpack_from(">HBB", data)
    if zero != 0 or element != BYTE or dimensions == 0:
        raise UserError(f"{where}: not an idx file of bytes: it starts with {data[:4].hex(' ')}")
    start = 4 + 4 * dimensions
    if len(data) < start:
        raise UserError(f"{where}: cut off in its header, at {len(data)} bytes")
    shape = struct.unpack_from(f">{dimensions}I", data, 4)
    wanted = start + math.prod(shape)
    if len(data) != wanted:
        what = f"its header says {list(shape)}, which takes {wanted:,} bytes"
        raise UserError(f"{where}: {what}, but it has {len(data):,}")
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)


def decode_all(files: Mapping[str, bytes], where: str) -> list[np.ndarray]:
    """The four arrays, in the order of `FILES`."""
    return [decode(files[name], f"{where}: {name}") for name in FILES]


def unzipped(data: bytes, most: int | None = None) -> bytes:
    """The bytes, unpacked if they are gzip's: told by how they start, since names can lie.
    Raises ValueError if they are damaged, or as soon as they come to more than `most`."""
    if not data.startswith(b"\x1f\x8b"):
        return data
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            raw = file.read(-1 if most is None else most + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"damaged gzip file ({error})") from None
    if most is not None and len(raw) > most:
        raise ValueError(f"it unpacks to more than {most:,} bytes")
    return raw


def find_files(directory: Path) -> dict[str, Path]:
    """Those of the four files that lie in a directory, under any of their usual spellings."""
    found = {}
    for name in FILES:
        dotted = name.replace("-idx", ".idx")
        for spelling in (name, f"{name}.gz", dotted, f"{dotted}.gz"):
            if os.path.isfile(directory / spelling):
                found[name] = directory / spelling
                break
    return found


def read_files(directory: Path) -> dict[str, bytes] | None:
    """The four files of a directory, unpacked; None if it has none of them. Only some of them, or
    one that cannot be read, is an error: whoever put them there meant them to be used."""
    found = find_files(directory)
    if not found:
        return None
    if missing := [name for name in FILES if name not in found]:
        raise UserError(f"{directory}: missing {', '.join(missing)} (each may also end in .gz)")
    return {name: _read_file(path) for name, path in found.items()}


def _read_file(path: Path) -> bytes:
    try:
        return unzipped(path.read_bytes())
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from None
    except ValueError as error:
        raise UserError(f"{path}: {error}") from None
