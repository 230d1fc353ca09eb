"""The state of a run on disk: plain arrays by name, with a checksum. No pickle.

`checkpoint/epoch-N/` holds `arrays.npz`, which `numpy.load` opens, and `manifest.json`: the
checksum, and the types of arrays that are stored as bits, as numpy does not know them (bfloat16).
It is written aside and renamed, and the one before is kept, so that there is always a whole one.
"""

import hashlib
import io
import json
import re
import shutil
import warnings
import zipfile
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, PyTree

from ..errors import UserError
from ..files import move_directory, write_synced

KEPT = 2
ARRAYS, MANIFEST = "arrays.npz", "manifest.json"


def save(directory: Path, state: PyTree, epoch: int) -> None:
    """Writes the state after an epoch; only the checkpoint before it is kept beside it."""
    buffer = io.BytesIO()
    arrays = {name: to_numpy(leaf) for name, leaf in named_arrays(state).items()}
    foreign = {name: array.dtype.name for name, array in arrays.items() if _is_foreign(array)}
    plain: dict[str, Any] = arrays | {name: _bits(arrays[name]) for name in foreign}
    np.savez(buffer, allow_pickle=False, **plain)
    content = buffer.getvalue()
    manifest = {"sha256": hashlib.sha256(content).hexdigest(), "dtypes": foreign}
    aside = directory / ".aside"
    shutil.rmtree(aside, ignore_errors=True)  # of a run that was killed while it wrote
    aside.mkdir(parents=True)
    write_synced(aside / ARRAYS, content)
    write_synced(aside / MANIFEST, (json.dumps(manifest, indent=2) + "\n").encode())
    move_directory(aside, directory / f"epoch-{epoch:06d}")
    for old in _newest_first(directory)[KEPT:]:
        shutil.rmtree(old)


def restore(directory: Path, like: PyTree, at_most: int | None = None) -> tuple[PyTree, int] | None:
    """The newest whole checkpoint, of an epoch `at_most`, in the structure of the given state, and
    its epoch; None if there is none. A damaged one is passed over with a warning."""
    found = _newest_first(directory)
    for path in found:
        epoch = _epoch(path)
        if at_most is not None and epoch > at_most:
            warnings.warn(f"{path} is newer than the metrics: going on before it", stacklevel=2)
            continue
        try:
            arrays = _read(path)
        except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
            warnings.warn(f"the checkpoint {path} is damaged ({error}): skipped", stacklevel=2)
            continue
        return _filled(like, arrays, path), epoch
    if found:
        raise UserError(
            f"no checkpoint in {directory} can be used: delete {directory} to start again"
        )
    return None


def named_arrays(state: PyTree) -> dict[str, Array]:
    """Every array of the state by its path. The underscore of a private field is left out: its
    property has the same name without."""
    leaves, _ = jax.tree.flatten_with_path(eqx.filter(state, eqx.is_array))
    paths = [jax.tree_util.keystr(path, simple=True, separator="/") for path, _ in leaves]
    names = [re.sub(r"(?<![^/])_", "", path) for path in paths]
    names = names if len(set(names)) == len(names) else paths
    return {name: leaf for name, (_, leaf) in zip(names, leaves, strict=True)}


def _newest_first(directory: Path) -> list[Path]:
    found = [path for path in directory.glob("epoch-*") if re.fullmatch(r"epoch-\d+", path.name)]
    return sorted(found, key=_epoch, reverse=True)


def _epoch(path: Path) -> int:
    return int(path.name.removeprefix("epoch-"))


def _read(path: Path) -> dict[str, np.ndarray]:
    manifest = json.loads((path / MANIFEST).read_text())
    content = (path / ARRAYS).read_bytes()
    if hashlib.sha256(content).hexdigest() != manifest["sha256"]:
        raise ValueError("wrong checksum")
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        arrays = dict(stored)
    foreign = manifest.get("dtypes", {})  # older checkpoints have none
    return arrays | {name: arrays[name].view(dtype) for name, dtype in foreign.items()}


def _filled(like: PyTree, arrays: dict[str, np.ndarray], path: Path) -> PyTree:
    wanted = named_arrays(like)
    if _kinds({name: to_numpy(leaf) for name, leaf in wanted.items()}) != _kinds(arrays):
        raise UserError(f"{path} is of another network, method or precision: choose another --out")
    loaded = [from_numpy(arrays[name], leaf) for name, leaf in wanted.items()]
    dynamic, static = eqx.partition(like, eqx.is_array)
    return eqx.combine(jax.tree.unflatten(jax.tree.structure(dynamic), loaded), static)


def _kinds(arrays: dict[str, np.ndarray]) -> dict[str, tuple]:
    return {name: (array.shape, array.dtype) for name, array in arrays.items()}


def _is_foreign(array: np.ndarray) -> bool:
    """Of a type that numpy's files do not know: bfloat16, and all that is not numpy's own."""
    return array.dtype.kind == "V"


def _bits(array: np.ndarray) -> np.ndarray:
    """The same bits as whole numbers; `view` undoes it."""
    return array.view(f"u{array.dtype.itemsize}")


def _is_key(leaf: Array) -> bool:
    return jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def to_numpy(leaf: Array) -> np.ndarray:
    """A copy on the host; of a key, its data."""
    return np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)


def from_numpy(array: np.ndarray, like: Array) -> Array:
    """A copy on the device, in the kind of another, which training may use up."""
    if _is_key(like):
        return jax.random.wrap_key_data(jax.numpy.array(array), impl=jax.random.key_impl(like))
    return jax.numpy.array(array)
