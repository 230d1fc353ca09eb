"""The paper's experiments, ready to run."""

from typing import Any

from ..errors import UserError
from .bandit import Bandit as Bandit
from .bandit import ConvBandit as ConvBandit
from .base import AbstractExperiment as AbstractExperiment
from .base import binarise as binarise
from .naming import run_name as run_name
from .vae import VAE as VAE

EXPERIMENTS: dict[str, type[AbstractExperiment]] = {
    experiment.name: experiment for experiment in (Bandit, ConvBandit, VAE)
}


def experiment_from(config: dict[str, Any]) -> AbstractExperiment:
    """The experiment of a run's `config.json`."""
    try:
        settings: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in config["settings"].items()
        }
        return EXPERIMENTS[config["task"]](**settings)
    except (AttributeError, KeyError, TypeError) as error:
        raise UserError(f"the run is of another version of hnca ({error})") from None
