"""Training: many steps as one compiled program."""

from .epoch import Task as Task
from .epoch import TrainState as TrainState
from .epoch import make_epoch as make_epoch
