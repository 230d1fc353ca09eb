"""Training: many steps as one compiled program, and runs that survive what befalls them."""

from .compiled import keep_compiled as keep_compiled
from .devices import Devices as Devices
from .directory import RunDirectory as RunDirectory
from .engine import Engine as Engine
from .epoch import Epoch as Epoch
from .epoch import Task as Task
from .epoch import TrainState as TrainState
from .epoch import make_epoch as make_epoch
from .run import Reporter as Reporter
from .run import train as train
from .run import train_side_by_side as train_side_by_side
from .signals import Interrupted as Interrupted
from .under_way import Run as Run
