"""Training: many steps as one compiled program, and runs that survive what befalls them.

programs.py     a step, an epoch of steps, as compiled programs
compiling.py    how they are compiled, and what is kept of it
trainer.py      an experiment on its data: an epoch, a test, the metrics of both
loop.py         epoch after epoch, until a run is done, is stopped, or fails
reporting.py    who is told how it goes
tensorboard.py  ... and where TensorBoard finds it
run.py          a run under way: what it has measured, and what is written of it
directory.py    the files of a run
checkpoint.py   its state on disk
memory.py       what a network needs, and what there is
devices.py      what a batch is spread over
hosts.py        several processes that train one run
signals.py      how a run is asked to stop
curves.py       a picture of the metrics
evaluation.py   a trained run, read back and tested again
generation.py   a picture of what a VAE has learned
"""

from .compiling import keep_compiled as keep_compiled
from .compiling import leave as leave
from .devices import Devices as Devices
from .directory import RunDirectory as RunDirectory
from .evaluation import TrainedRun as TrainedRun
from .evaluation import read_trained as read_trained
from .loop import train as train
from .loop import train_side_by_side as train_side_by_side
from .programs import Program as Program
from .programs import Task as Task
from .programs import TrainState as TrainState
from .programs import make_epoch as make_epoch
from .reporting import Display as Display
from .reporting import Reporter as Reporter
from .reporting import make_reporters as make_reporters
from .run import Run as Run
from .signals import Interrupted as Interrupted
from .tensorboard import TensorBoard as TensorBoard
from .trainer import Trainer as Trainer
