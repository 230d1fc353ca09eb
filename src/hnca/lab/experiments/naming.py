"""What a run is called, whatever other runs there are."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .base import AbstractExperiment

APART = ("epochs", "updates", "seed", "dataset")  # told at the end, or no other run


def run_name(experiment: AbstractExperiment, usual: Mapping[str, Any] = {}) -> str:
    """The title, every other setting that is not usual, the data and the seed. Fit for a directory.
    What `usual` does not say is usual if it is the paper's."""
    goes_without_saying = vars(type(experiment)()) | dict(usual)
    silent = {*APART, *experiment.titled}
    told = [
        f"{name.replace('_', '-')}-{value}"
        for name, value in vars(experiment).items()
        if name not in silent and value != goes_without_saying[name]
    ]
    data = Path(os.path.abspath(os.path.expanduser(experiment.dataset))).name  # of a directory, say
    return "-".join([experiment.title, *told, data, str(experiment.seed)])
