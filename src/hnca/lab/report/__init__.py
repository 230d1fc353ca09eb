"""One page of many runs: means over seeds, the paper's figures, and its numbers beside ours."""

from .page import attention as attention
from .reading import Collection as Collection
from .reading import find as find
from .reading import read_all as read_all
from .writing import check_place as check_place
from .writing import write_report as write_report
