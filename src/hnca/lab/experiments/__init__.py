"""Experiments: what one is, the paper's own, and anyone's by the name of its file.

base.py     what an experiment is: settings, data, graph, step and test
images.py   what those on images have in common
bandit.py   the paper's bandits
vae.py      the paper's variational autoencoder, and one of convolutions
tasks.py    experiments by name, and the names of their runs
"""

from .bandit import Bandit as Bandit
from .bandit import ConvBandit as ConvBandit
from .base import AbstractExperiment as AbstractExperiment
from .base import Data as Data
from .base import Step as Step
from .base import count_rows as count_rows
from .images import AbstractImageExperiment as AbstractImageExperiment
from .images import Images as Images
from .images import binarise as binarise
from .tasks import EXPERIMENTS as EXPERIMENTS
from .tasks import experiment_class as experiment_class
from .tasks import experiment_from as experiment_from
from .tasks import run_name as run_name
from .tasks import short_task as short_task
from .tasks import source_of as source_of
from .tasks import task_of as task_of
from .tasks import whole_name as whole_name
from .vae import VAE as VAE
from .vae import AbstractVAE as AbstractVAE
from .vae import ConvVAE as ConvVAE
