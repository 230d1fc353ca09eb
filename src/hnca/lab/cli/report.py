"""`hnca report`: one page of many runs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from ..settings import Flag
from ..words import counted
from .usage import parse


@dataclass(frozen=True)
class Report:
    """One page of many runs: means over seeds with confidence bands, the paper's figures as PNG
    and PDF, test bounds beside the paper's, curves to explore, and spreadsheets of all runs
    and of all epochs. For example, everything below runs/:

    hnca report runs -o report

    then open report/index.html. Any mix of runs will do; only those that differ in nothing but
    their seed are averaged."""

    runs: Annotated[tuple[Path, ...], Flag(positional=True, metavar="RUNS")] = (Path("runs"),)
    """Directories of runs, or directories that hold such directories at any depth."""
    out: Annotated[Path, Flag(short="-o", metavar="DIRECTORY")] = Path("report")
    """Directory of the report. An older report there is replaced, anything else is refused."""


def main(arguments: list[str]) -> None:
    """Reads, writes, and says what is not in the means."""
    asked = parse(Report, "hnca report", arguments)
    from rich.console import Console
    from rich.progress import track

    from ..report import attention, check_place, find_runs, read_runs, write_report

    check_place(asked.out)
    console = Console(stderr=True)
    bar = lambda paths: track(paths, "reading runs", console=console, transient=True)
    collection = read_runs(find_runs(asked.runs), bar)
    with console.status("writing the report") as status:
        write_report(collection, asked.out, status.update)
    for line in attention(collection):
        print(line)
    complete = sum(run.complete for run in collection.runs)
    total = len(collection.runs) + len(collection.duplicates) + len(collection.damaged)
    are = "is" if total == 1 else "are"
    means = ", and in the means" if complete else ""
    print(f"{complete:,} of {counted(total, 'run')} {are} complete{means}")
    print(f"page    {asked.out / 'index.html'}\nfigures {asked.out / 'figures'}")
    print(f"csv     {asked.out / 'results.csv'}, {asked.out / 'epochs.csv'}")
