"""What a run is called, whatever other runs there are."""

import os
from dataclasses import fields
from pathlib import Path

from .base import AbstractExperiment

APART = ("epochs", "updates", "seed", "dataset")  # told at the end, or no other run


def run_name(experiment: AbstractExperiment) -> str:
    """The title, every other setting that is not the paper's, the data and the seed. Fit for a
    directory."""
    usual = type(experiment)()
    silent = {*APART, *experiment.titled}
    told = [
        f"{field.name.replace('_', '-')}-{getattr(experiment, field.name)}"
        for field in fields(experiment)
        if field.name not in silent
        and getattr(experiment, field.name) != getattr(usual, field.name)
    ]
    data = Path(
        os.path.abspath(os.path.expanduser(experiment.dataset))
    ).name  # it may be a directory
    return "-".join([experiment.title, *told, data, str(experiment.seed)])
