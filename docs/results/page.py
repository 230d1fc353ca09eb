"""Makes what docs/results/README.md shows of runs whose records are committed: the tables and
figures of `hnca report`.

    hnca sweep docs/results/full/full.toml       # days of one core; the same command goes on
    python docs/results/page.py collect runs/full
    python docs/results/page.py write

and the same with conv-vae in place of full.
"""

import argparse
import shutil
import tempfile
from collections import Counter
from pathlib import Path

from committed import collect, in_markdown, write_page

from hnca.lab.report.groups import panels_of
from hnca.lab.report.page import write_report
from hnca.lab.report.reading import Collection, find_runs, read_runs
from hnca.lab.report.tables import Table, bounds_table, final_tables
from hnca.lab.sweep.plans import read_plan, runs_of

HERE = Path(__file__).parent
PAGE = HERE / "README.md"
FIGURES = {  # of each plan's runs, by the report's names for them
    "full": ("vae-mnist", "bandit-mnist", "conv-bandit-mnist", "vae-ablation-mnist"),
    "conv-vae": ("conv-vae-mnist", "conv-vae-fashion-mnist"),
}
BOUNDS = ("layers", "method", "seeds", "ours", "paper", "difference", "do they agree?")
BANDITS = ("layers", "method", "seeds", "training accuracy", "test accuracy", "ln variance")
PICTURES = ("data", "method", "training ELBO", "test bound", "ln variance")


def runs(plan: str) -> Path:
    """Where the records of a plan's runs are committed."""
    return HERE / plan / "runs"


def committed(plan: str) -> Collection:
    """All of a plan's runs that are there."""
    return read_runs(find_runs([runs(plan)]))


def some_columns(table: Table, names: tuple[str, ...]) -> str:
    """Those columns of a report's table that a page has room for."""
    places = [table.columns.index(name) for name in names]
    return in_markdown(names, ([row[place].text for place in places] for row in table.cells))


def last_values(plan: str, task: str, names: tuple[str, ...]) -> str:
    """Of the runs of a task, in a table."""
    tables = final_tables(panels_of(committed(plan).runs))
    found = [some_columns(table, names) for table in tables if table.title == task]
    return found[0] if found else "No run is finished yet."


def tables() -> dict[str, str]:
    """What the page has, by the names of its marks."""
    bounds = bounds_table(panels_of(committed("full").runs))
    assert bounds is not None
    return {
        "full-bounds": f"{some_columns(bounds, BOUNDS)}\n\n{bounds.note}",
        "full-bandits": last_values("full", "bandit", BANDITS),
        "full-missing": missing_runs("full"),
        "conv-vae": last_values("conv-vae", "conv-vae", PICTURES),
        "conv-vae-missing": missing_runs("conv-vae"),
    }


def missing_runs(plan: str) -> str:
    """Those of a plan that are not there, and of how many seeds."""
    read = read_plan(str(HERE / plan / f"{plan}.toml"))
    there = {path.name for path in find_runs([runs(plan)])}
    wanted = runs_of(read.experiments, usual=read.usual)
    if not (missing := Counter(run.experiment.title for run in wanted if run.name not in there)):
        return f"All {len(wanted)} runs of the plan are there."
    words = ", ".join(f"`{title}` ({count})" for title, count in missing.items())
    there_are = f"{len(wanted) - missing.total()} of the {len(wanted)} runs of the plan are there."
    return f"{there_are} Missing, with the number of seeds: {words}."


def write_figures() -> None:
    """The report's own, beside the runs."""
    for plan, names in FIGURES.items():
        with tempfile.TemporaryDirectory() as directory:
            report = Path(directory) / "report"
            write_report(committed(plan), report)
            for name in names:
                if (figure := report / "figures" / f"{name}.png").exists():
                    shutil.copy(figure, HERE / plan / figure.name)


def main() -> None:
    """Does one of the two."""
    parser = argparse.ArgumentParser(description="What docs/results/README.md shows of runs.")
    parser.add_argument("what", choices=["collect", "write"])
    parser.add_argument("runs", nargs="*", type=Path, help="runs/full, runs/conv-vae: to collect")
    arguments = parser.parse_args()
    if arguments.what == "collect":
        for directory in arguments.runs:
            collect(directory, runs(directory.name))
    else:
        write_figures()
        write_page(PAGE, tables())


if __name__ == "__main__":
    main()
