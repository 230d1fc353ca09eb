"""One page of many runs: means over seeds, the paper's figures, and its numbers beside ours.

reading.py    runs from disk
record.py     a run that was read: what was asked for, what was measured, and how far it is
groups.py     which runs belong together, and their means
labels.py     what things are called, and the colours of methods
figures.py    the figures
paper.py      the paper's numbers, and ours beside them
tables.py     the tables
spreadsheets.py  the same for programs: by runs, and by epochs
page.py       the page, and everything on disk
"""

from .page import attention as attention
from .page import check_place as check_place
from .page import write_report as write_report
from .reading import Collection as Collection
from .reading import find_runs as find_runs
from .reading import read_runs as read_runs
