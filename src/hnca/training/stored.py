"""A run that was trained before, read back."""

from pathlib import Path

from ..data import Dataset, load
from ..errors import UserError
from ..experiments import AbstractExperiment, experiment_from
from ..graph import Graph
from . import checkpoint
from .directory import RunDirectory
from .engine import Engine


def read_run(
    directory: RunDirectory, data_dir: Path | None = None
) -> tuple[AbstractExperiment, Dataset, Graph, int]:
    """The experiment of a run, its data, the network as it was last saved, and after which
    epoch."""
    config = directory.read_config()
    experiment = experiment_from(config)
    data = load(experiment.dataset, data_dir)
    if data.fingerprint != config["data"]["fingerprint"]:
        raise UserError(f"{directory.path} was trained on another {data.name} than the one here")
    saved = checkpoint.restore(directory.checkpoints, Engine(experiment, data).start())
    if saved is None:
        raise UserError(f"{directory.path} has no checkpoint yet: train it first")
    state, epoch = saved
    return experiment, data, state.graph, epoch
