"""Makes what docs/results/README.md shows of runs whose records are committed: the tables and
figures of `hnca report`.

    hnca sweep docs/results/full/full.toml       # days of one core; the same command goes on
    python docs/results/page.py collect runs/full
    python docs/results/page.py write

and the same with conv-vae or clipped in place of full.
"""

import argparse
import shutil
import tempfile
from pathlib import Path

from committed import (
    active,
    collect,
    in_markdown,
    in_the_papers_settings,
    missing_runs,
    read_committed,
    write_page,
)

from hnca.lab.report.groups import panels_of
from hnca.lab.report.page import write_report
from hnca.lab.report.reading import Collection
from hnca.lab.report.record import RunRecord
from hnca.lab.report.tables import Table, bounds_table, final_tables

HERE = Path(__file__).parent
PAGE = HERE / "README.md"
ELBO, ACCURACY = "Training ELBO and gradient variance", "Accuracy and gradient variance"
FIGURES = {  # of each plan's runs, by the report's names for them
    "full": {
        "vae-mnist": f"{ELBO} of the VAEs",
        "vae-ablation-mnist": f"{ELBO} of the ablations",
        "bandit-mnist": f"{ACCURACY} of the bandits",
        "conv-bandit-mnist": f"{ACCURACY} of the bandits on top of convolutions",
    },
    "conv-vae": {
        "conv-vae-mnist": f"{ELBO} on MNIST",
        "conv-vae-fashion-mnist": f"{ELBO} on Fashion-MNIST",
    },
}
PLACES = {plan: HERE / plan / "runs" for plan in (*FIGURES, "clipped")}
BOUNDS = ("layers", "method", "seeds", "ours", "paper", "difference", "do they agree?")
BANDITS = ("layers", "method", "seeds", "training accuracy", "test accuracy", "ln variance")
PICTURES = ("data", "method", "training ELBO", "test bound", "ln variance")
CLIPPED = ("layers", "method", "clip", "seed", "training ELBO", "test bound", "active units")


def committed(plan: str) -> Collection:
    """All of a plan's runs that are there."""
    return read_committed(PLACES[plan])


def some_columns(table: Table, names: tuple[str, ...]) -> str:
    """Those columns of a report's table that a page has room for."""
    places = [table.columns.index(name) for name in names]
    return in_markdown(names, ([row[place].text for place in places] for row in table.cells))


def last_values(plan: str, task: str, names: tuple[str, ...]) -> str:
    """Of the runs of a task, in a table."""
    tables = final_tables(panels_of(committed(plan).runs))
    found = [some_columns(table, names) for table in tables if table.title == task]
    return found[0] if found else "No run is finished yet."


def clipped_table() -> str:
    """The cells that were run with the clip of the author's code, beside those without it: the last
    values of each run."""
    clipped = committed("clipped").runs
    cells = {(run.layers, run.method) for run in clipped}
    plain = [run for run in in_the_papers_settings() if (run.layers, run.method) in cells]
    told = [(run, "no") for run in plain] + [(run, "yes") for run in clipped]
    rows = [
        [run.layers, run.method, clip, run.seed, *nats(run), active(run)]
        for run, clip in sorted(told, key=lambda each: (each[0].layers, each[1], each[0].seed))
    ]
    return in_markdown(CLIPPED, rows)


def nats(run: RunRecord) -> list[str]:
    """What it came to in the end."""
    return [f"{run.final[name]:.2f}" for name in ("train_elbo", "test_bound")]


def tables() -> dict[str, str]:
    """What the page has, by the names of its marks."""
    bounds = bounds_table(panels_of(committed("full").runs))
    assert bounds is not None
    return {
        "full-bounds": f"{some_columns(bounds, BOUNDS)}\n\n{bounds.note}",
        "clipped": clipped_table(),
        "clipped-missing": missing("clipped"),
        "full-bandits": last_values("full", "bandit", BANDITS),
        "full-conv-bandits": last_values("full", "conv-bandit", BANDITS),
        "full-figures": figures("full"),
        "full-missing": missing("full"),
        "conv-vae": last_values("conv-vae", "conv-vae", PICTURES),
        "conv-vae-figures": figures("conv-vae"),
        "conv-vae-missing": missing("conv-vae"),
    }


def missing(plan: str) -> str:
    """Which runs of a plan are not there yet."""
    return missing_runs(HERE / plan / f"{plan}.toml", committed(plan))


def figures(plan: str) -> str:
    """Those that were drawn, one below the other."""
    there = {name: words for name, words in FIGURES[plan].items() if drawn(plan, name).exists()}
    shown = [f"![{words}]({plan}/{name}.png)" for name, words in there.items()]
    return "\n\n".join(shown)


def drawn(plan: str, name: str) -> Path:
    """Where a figure is, beside the runs."""
    return HERE / plan / f"{name}.png"


def write_figures() -> None:
    """The report's own."""
    for plan, names in FIGURES.items():
        with tempfile.TemporaryDirectory() as directory:
            report = Path(directory) / "report"
            write_report(committed(plan), report)
            for name in names:
                if (figure := report / "figures" / f"{name}.png").exists():
                    shutil.copy(figure, drawn(plan, name))


def main() -> None:
    """Does one of the two."""
    parser = argparse.ArgumentParser(description="What docs/results/README.md shows of runs.")
    parser.add_argument("what", choices=["collect", "write"])
    parser.add_argument("runs", nargs="*", type=Path, help="runs/full, say: to collect")
    arguments = parser.parse_args()
    if arguments.what == "collect":
        collect(arguments.runs, PLACES)
    else:
        write_figures()
        write_page(PAGE, tables())


if __name__ == "__main__":
    main()
