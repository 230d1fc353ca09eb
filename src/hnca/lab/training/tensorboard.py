"""What is measured, for TensorBoard: an event file in the directory of each run."""

import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from ...graph import Graph
from ...models import generative
from ..data.pictures import tiled
from ..errors import UserError
from ..experiments import AbstractVAE, Data, Images
from .generation import dreams, means
from .run import Run

FILES = "events.out.tfevents.*"
ROWS, COLUMNS = 6, 12  # of the samples


class TensorBoard:
    """A reporter that writes every metric by epochs and, of a VAE, what it samples: after epochs 1,
    2, 5, 10, 20, 50, ..., and the last.

    When a run goes on, its file is written anew, from what the run has on the disk: so there is no
    gap, and nothing twice, wherever it was interrupted. The time between two epochs is what the
    training took."""

    def __init__(self) -> None:
        try:
            import_module("tensorboardX")
        except ModuleNotFoundError:
            raise UserError("--tensorboard needs it: pip install 'hnca[tensorboard]'") from None
        self._files: dict[Path, EventFile] = {}

    def begin(self, run: Run, data: Data) -> None:
        """Writes what is known of the run so far."""
        path = run.directory.path
        before = sorted(path.glob(FILES))
        pictures = {event.step: event for file in before for event in _pictures(file)}
        elapsed = sum(entry["seconds"] for entry in run.entries)
        file = self._files[path] = EventFile(path, time.time() - elapsed, data)
        for entry in run.entries:
            file.add_scalars(entry)
            if entry["epoch"] in pictures:
                file.copy(pictures[entry["epoch"]])
        if run.done and _is_due(run.done):
            file.add_samples(run)  # it may have been interrupted just before it did
        file.flush()
        for each in before:
            each.unlink()

    def epoch(self, run: Run, entry: dict[str, Any]) -> None:
        """Adds an epoch."""
        file = self._files[run.directory.path]
        file.add_scalars(entry)
        if _is_due(run.done):
            file.add_samples(run)
        file.flush()

    def end(self, run: Run, summary: dict[str, Any] | None) -> None:
        """Adds the last test, if it is not among the epochs, and the last samples."""
        file = self._files.pop(run.directory.path)
        if summary is not None:
            known = {"seconds", *run.entries[-1]}
            file.add_scalars({k: v for k, v in summary["final"].items() if k not in known})
            file.add_samples(run)
        file.close()


def has_events(directory: Path) -> bool:
    """Whether there is an event file of a run."""
    return any(directory.glob(FILES))


def _is_due(epoch: int) -> bool:
    """1, 2, 5, 10, 20, 50, ...: about as many as TensorBoard shows."""
    return str(epoch).rstrip("0") in ("1", "2", "5")


class EventFile:
    """A file that is being written. Its epochs come in order."""

    def __init__(self, directory: Path, began: float, data: Data):
        writing = import_module("tensorboardX.event_file_writer")
        self._event = import_module("tensorboardX.proto.event_pb2")
        self._summary = import_module("tensorboardX.summary")
        # A name of its own, though the last one may have been begun in the same second.
        self._writer = writing.EventsWriter(str(directory / "events"), f".{time.time_ns()}")
        self._time, self._data = began, data
        self._epoch = 0
        self._drawn = 0  # the last epoch that has samples
        start = self._event.SessionLog(status=self._event.SessionLog.START)
        self._write(session_log=start)  # TensorBoard forgets what it has read of this run

    def add_scalars(self, entry: dict[str, Any]) -> None:
        """What was measured in an epoch; without an `epoch`, in the latest."""
        self._epoch = entry.get("epoch", self._epoch)
        self._time += entry.get("seconds", 0.0)
        made = self._summary.Summary
        values = [
            made.Value(tag=name, simple_value=value)
            for name, value in entry.items()
            if name != "epoch"
        ]
        if values:
            self._write(summary=made(value=values))

    def add_samples(self, run: Run) -> None:
        """What the network samples now, if it is a VAE, and unless it is there already."""
        if self._drawn == self._epoch:
            return
        if not (isinstance(run.experiment, AbstractVAE) and isinstance(self._data, Images)):
            return
        picture = sample_picture(run.state.graph, self._data.shape)
        self._write(summary=self._summary.image("samples", picture, dataformats="HW"))
        self._drawn = self._epoch

    def copy(self, event: Any) -> None:
        """A picture of another file."""
        self._write(summary=event.summary)
        self._drawn = self._epoch

    def flush(self) -> None:
        """Lets others see what was written."""
        self._writer.flush()

    def close(self) -> None:
        """No more will come."""
        self._writer.close()

    def _write(self, **content: Any) -> None:
        event = self._event.Event(step=self._epoch, wall_time=self._time, **content)
        self._writer.write_event(event)


def sample_picture(graph: Graph, shape: tuple[int, int]) -> np.ndarray:
    """Samples of a VAE side by side, by the same chances every time: one sees them change."""
    local = jax.tree.map(lambda leaf: jax.device_get(leaf) if eqx.is_array(leaf) else leaf, graph)
    images = np.asarray(_samples(local))
    rows = [images[start : start + COLUMNS] for start in range(0, len(images), COLUMNS)]
    return tiled(rows, shape, COLUMNS, 0.5)


@eqx.filter_jit
def _samples(graph: Graph) -> jax.Array:
    return means(dreams(generative(graph), jax.random.key(0), ROWS * COLUMNS))


def _pictures(file: Path) -> Iterator[Any]:
    """The events of a file that have an image."""
    for event in read_events(file):
        if any(value.HasField("image") for value in event.summary.value):
            yield event


def read_events(file: Path) -> Iterator[Any]:
    """The events of a file, up to where its writer was killed, if it was; what is damaged is
    passed over. A file is records of a length, its checksum, so many bytes, and their checksum."""
    kind = import_module("tensorboardX.proto.event_pb2").Event
    damage = import_module("google.protobuf.message").DecodeError
    content, place = file.read_bytes(), 0
    while place + 12 <= len(content):
        (length,) = struct.unpack_from("<Q", content, place)
        end = place + 12 + length
        if end + 4 > len(content):
            return
        with suppress(damage):
            yield kind.FromString(content[place + 12 : end])
        place = end + 4
