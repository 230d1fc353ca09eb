"""Many runs: a plan of them, on this machine or on a cluster.

plans.py       a plan, its grids multiplied out, and the runs that come of it
status.py      how far runs are, and how long the rest will take
engines.py     where runs are done: in processes, on Ray, on Dask
worker.py      what is done there: a run, or a few measured steps
scheduler.py   who works on what, and what becomes of those that fail
builtin/       the plans that have a name
"""

from .engines import ENGINES as ENGINES
from .engines import AbstractEngine as AbstractEngine
from .engines import check_engine as check_engine
from .engines import make_engine as make_engine
from .plans import PlannedRun as PlannedRun
from .plans import announced as announced
from .plans import built_in as built_in
from .plans import narrowed as narrowed
from .plans import read_plan as read_plan
from .plans import runs_of as runs_of
from .scheduler import Event as Event
from .scheduler import Scheduler as Scheduler
from .status import Outlook as Outlook
from .status import Pace as Pace
from .status import RunStatus as RunStatus
from .status import final_metrics as final_metrics
from .status import latest_epochs as latest_epochs
from .status import measure_programs as measure_programs
from .status import run_status as run_status
from .worker import fetch_data as fetch_data
