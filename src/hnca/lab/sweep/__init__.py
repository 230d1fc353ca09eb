"""Many runs: a plan of them, on this machine or on a cluster.

plans.py       a plan by its name or from a TOML file
grids.py       settings that are multiplied out, and what is refused of them
runs.py        the runs of a plan: their names, and which are wanted
progress.py    how far a run is, read from its directory
pace.py        how long it will take
worker.py      what is done elsewhere: a run, or a few measured steps
engines.py     where: in processes on this machine
clusters.py    where: on Ray or Dask
scheduler.py   who works on what, and what becomes of those that fail
builtin/       the plans that have a name
"""

from .clusters import check_engine as check_engine
from .clusters import make_engine as make_engine
from .engines import AbstractEngine as AbstractEngine
from .plans import built_in as built_in
from .plans import read_plan as read_plan
from .runs import Run as Run
from .runs import narrowed as narrowed
from .runs import runs_of as runs_of
from .scheduler import Scheduler as Scheduler
