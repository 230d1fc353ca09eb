"""A run that was trained before, read back."""

from pathlib import Path
from typing import NamedTuple

from ...graph import Graph
from ..data import Dataset, load
from ..errors import UserError
from ..experiments import AbstractExperiment, experiment_from
from . import checkpoint
from .directory import RunDirectory
from .engine import Engine, Split


class Stored(NamedTuple):
    """A run as it was last saved."""

    experiment: AbstractExperiment
    data: Dataset
    test_set: Split
    graph: Graph
    epoch: int  # after which it was saved


def read_run(directory: RunDirectory, data_dir: Path | None = None) -> Stored:
    """The last state of a run, and the data that it was trained on."""
    config = directory.read_config()
    experiment = experiment_from(config)
    data = load(experiment.dataset, data_dir)
    if data.fingerprint != config["data"]["fingerprint"]:
        raise UserError(f"{directory.path} was trained on another {data.name} than the one here")
    engine = Engine(experiment, data)
    saved = checkpoint.restore(directory.checkpoints, engine.start())
    if saved is None:
        raise UserError(f"{directory.path} has no checkpoint yet: train it first")
    state, epoch = saved
    return Stored(experiment, data, engine.test_set, state.graph, epoch)
