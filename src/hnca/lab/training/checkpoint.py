"""The state of a run on disk: plain arrays by name, with a checksum. No pickle.

`checkpoint/epoch-N/` holds `arrays.npz`, which `numpy.load` opens, and `manifest.json`: the
checksum, the types of arrays that are stored as bits, as numpy does not know them (bfloat16), and
what the checkpoint belongs to: its epoch, its run, and the metrics up to then.
It is written aside and renamed, and the one before is kept, so that there is always a whole one.

One that is damaged, or that belongs elsewhere, is never gone on from. Older manifests tell the
checksum alone: such a checkpoint is used if its number of steps is right, with a warning.
"""

import hashlib
import io
import json
import re
import shutil
import warnings
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, PyTree

from ..errors import UserError
from ..files import whole_directory, write_synced

KEPT = 2
ARRAYS, MANIFEST = "arrays.npz", "manifest.json"


class Belonging(NamedTuple):
    """What a state after some epoch belongs to."""

    run: str  # digest of what makes the run
    metrics: str  # digest of what was measured up to then
    step: int


class Misplaced(Exception):
    """A whole checkpoint that does not belong where it is."""


def save(directory: Path, state: PyTree, epoch: int, belonging: Belonging | None = None) -> None:
    """Writes the state after an epoch; only the checkpoint before it is kept beside it."""
    buffer = io.BytesIO()
    arrays = {name: to_numpy(leaf) for name, leaf in named_arrays(state).items()}
    foreign = {name: array.dtype.name for name, array in arrays.items() if _is_foreign(array)}
    plain: dict[str, Any] = arrays | {name: _bits(arrays[name]) for name in foreign}
    np.savez(buffer, allow_pickle=False, **plain)
    content = buffer.getvalue()
    manifest = {"epoch": epoch, **(belonging._asdict() if belonging else {})}
    manifest |= {"sha256": hashlib.sha256(content).hexdigest(), "dtypes": foreign}
    with whole_directory(directory / f"epoch-{epoch:06d}") as aside:
        write_synced(aside / ARRAYS, content)
        write_synced(aside / MANIFEST, (json.dumps(manifest, indent=2) + "\n").encode())
    for old in _newest_first(directory)[KEPT:]:
        shutil.rmtree(old)


def restore(
    directory: Path, like: PyTree, belongings: Sequence[Belonging] | None = None
) -> tuple[PyTree, int] | None:
    """The newest checkpoint that can be used, in the structure of the given state, and its epoch;
    None if there is none at all. `belongings`, one for each epoch that was measured, say what it
    has to belong to. One that cannot be used is passed over with a warning."""
    found = _newest_first(directory)
    for path in found:
        try:
            manifest, arrays = _read(path)
            _check(manifest, arrays, path, belongings)
        except Misplaced as error:
            warnings.warn(f"the checkpoint {path} {error}: skipped", stacklevel=2)
        except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
            warnings.warn(f"the checkpoint {path} is damaged ({error}): skipped", stacklevel=2)
        else:
            return _filled(like, arrays, path), _epoch(path)
    if found:
        raise UserError(
            f"no checkpoint in {directory} can be used: put back what was there, or delete "
            f"{directory} to start again"
        )
    return None


def misplacement(directory: Path, belongings: Sequence[Belonging]) -> str | None:
    """What is wrong with the newest checkpoint of a measured epoch, or with the metrics that it
    was saved after; by its manifest alone."""
    for path in _newest_first(directory):
        if _epoch(path) <= len(belongings):
            try:
                _check_manifest(_manifest(path), path, belongings[_epoch(path) - 1])
            except Misplaced as error:
                return f"{path.name} {error}"
            except (OSError, ValueError, KeyError, TypeError):
                continue  # damaged, or gone since
            return None
    return None


def _check(
    manifest: dict[str, Any],
    arrays: dict[str, np.ndarray],
    path: Path,
    belongings: Sequence[Belonging] | None,
) -> None:
    if belongings is None:
        return
    if _epoch(path) > len(belongings):
        raise Misplaced("is newer than the metrics")
    belonging = belongings[_epoch(path) - 1]
    _check_manifest(manifest, path, belonging)
    if (steps := int(arrays["step"])) != belonging.step:
        raise Misplaced(f"has {steps} steps behind it, but the metrics say {belonging.step}")
    if "run" not in manifest:
        older = "is of an older hnca: whether it is this run's cannot be checked"
        warnings.warn(f"the checkpoint {path} {older}", stacklevel=3)


def _check_manifest(manifest: dict[str, Any], path: Path, belonging: Belonging) -> None:
    """As far as it tells."""
    if (epoch := manifest.get("epoch", _epoch(path))) != _epoch(path):
        raise Misplaced(f"is of epoch {epoch}")
    if manifest.get("run", belonging.run) != belonging.run:
        raise Misplaced("is of another run")
    if manifest.get("metrics", belonging.metrics) != belonging.metrics:
        raise Misplaced("does not go with metrics.jsonl: those have been changed since")


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


def _manifest(path: Path) -> dict[str, Any]:
    manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
    if not isinstance(manifest, dict):
        raise ValueError(f"{MANIFEST} is no record")
    return manifest


def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    manifest = _manifest(path)
    content = (path / ARRAYS).read_bytes()
    if hashlib.sha256(content).hexdigest() != manifest["sha256"]:
        raise ValueError("wrong checksum")
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        arrays = dict(stored)
    foreign = manifest.get("dtypes", {})  # older checkpoints have none
    return manifest, arrays | {name: arrays[name].view(dtype) for name, dtype in foreign.items()}


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
