"""The paper's experiments, ready to run."""

from .bandit import Bandit as Bandit
from .bandit import ConvBandit as ConvBandit
from .base import AbstractExperiment as AbstractExperiment
from .base import binarise as binarise

EXPERIMENTS: dict[str, type[AbstractExperiment]] = {
    experiment.name: experiment for experiment in (Bandit, ConvBandit)
}
