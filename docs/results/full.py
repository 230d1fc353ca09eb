"""Makes the part of docs/results/README.md on runs of full length, from what is committed of them.

hnca sweep docs/results/full/full.toml      # days of one core; the same command goes on
python docs/results/full.py collect runs/full
python docs/results/full.py page            # the tables and figures of `hnca report`
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
PAGE, PLAN, RUNS = HERE / "README.md", HERE / "full" / "full.toml", HERE / "full" / "runs"
FIGURES = ("vae-mnist", "bandit-mnist", "conv-bandit-mnist", "vae-ablation-mnist")
BOUNDS = ("layers", "method", "seeds", "ours", "paper", "difference", "do they agree?")
BANDITS = ("layers", "method", "seeds", "training accuracy", "test accuracy", "ln variance")


def committed() -> Collection:
    """All runs that are there."""
    return read_runs(find_runs([RUNS]))


def some_columns(table: Table, names: tuple[str, ...]) -> str:
    """Those columns of a report's table that a page has room for."""
    there = [name for name in names if name in table.columns]
    missing = "-"
    rows = [[row[name].text if name in row else missing for name in there] for row in table.rows]
    return in_markdown(there, rows)


def tables() -> dict[str, str]:
    """What the page has, by the names of its marks."""
    panels = panels_of(committed().runs)
    bounds, bandits = bounds_table(panels), [t for t in final_tables(panels) if t.title == "bandit"]
    assert bounds is not None
    none = "No run is finished yet."
    return {
        "full-bounds": f"{some_columns(bounds, BOUNDS)}\n\n{bounds.note}",
        "full-bandits": some_columns(bandits[0], BANDITS) if bandits else none,
        "full-missing": missing_runs(),
    }


def missing_runs() -> str:
    """Those of the plan that are not there, and of how many seeds."""
    plan = read_plan(str(PLAN))
    there = {path.name for path in find_runs([RUNS])}
    wanted = runs_of(plan.experiments, usual=plan.usual)
    missing = Counter(run.experiment.title for run in wanted if run.name not in there)
    words = ", ".join(f"`{title}` ({count})" for title, count in missing.items()) or "none"
    there_are = f"{len(wanted) - missing.total()} of the {len(wanted)} runs of the plan are there."
    return f"{there_are} Missing, with the number of seeds: {words}."


def write_figures() -> None:
    """The report's own, beside the page."""
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory) / "report"
        write_report(committed(), report)
        for name in FIGURES:
            if (figure := report / "figures" / f"{name}.png").exists():
                shutil.copy(figure, HERE / "full" / figure.name)


def main() -> None:
    """Does one of the two."""
    parser = argparse.ArgumentParser(description="Runs of full length, on docs/results/README.md.")
    parser.add_argument("what", choices=["collect", "page"])
    parser.add_argument("runs", nargs="*", type=Path, help="directories of runs, to collect")
    arguments = parser.parse_args()
    if arguments.what == "collect":
        for directory in arguments.runs:
            collect(directory, RUNS)
    else:
        write_figures()
        write_page(PAGE, tables())


if __name__ == "__main__":
    main()
