"""Makes docs/results/beyond.md's tables from the metrics that are committed beside it.

    hnca sweep docs/results/beyond/beyond-prune.toml    # hours; the same command goes on
    python docs/results/beyond.py collect runs/beyond-prune
    python docs/results/beyond.py plan                  # writes beyond-tuned.toml
    hnca sweep docs/results/beyond/beyond-tuned.toml
    python docs/results/beyond.py collect runs/beyond-tuned
    python docs/results/beyond.py tables                # writes the tables into beyond.md

`beyond-aim.toml` and `beyond-warmup.toml` do not depend on the others.
"""

import argparse
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from hnca.lab.report.reading import find_runs, read_runs
from hnca.lab.report.record import RunRecord

HERE = Path(__file__).parent
PAGE, PLANS = HERE / "beyond.md", HERE / "beyond"
RUNS = PLANS / "runs"  # by plan and name: what was measured, without checkpoints
FILES = ("config.json", "metrics.jsonl", "summary.json")
KEPT = 2  # learning rates of each method after pruning
PAPER = {1: -107.5, 2: -97.3, 3: -94.6}  # its best test bounds, after 840 epochs

Cell = Callable[[RunRecord], Any]


def collect(directories: Iterable[Path]) -> None:
    """Copies what runs have measured, finished or not, to where it is committed."""
    for run in find_runs(list(directories)):
        there = RUNS / run.parent.name / run.name
        there.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            if (run / name).exists():
                shutil.copy(run / name, there / name)
    print(f"wrote {RUNS}")


def finished(plan: str) -> list[RunRecord]:
    """The committed runs of a plan that are complete, by depth and method."""
    directory = RUNS / plan
    found = read_runs(find_runs([directory])).runs if directory.exists() else []
    order = lambda run: (run.layers or 0, run.method, *map(str, run.settings.values()), run.seed)
    return sorted((run for run in found if run.complete), key=order)


def best_rates(runs: Iterable[RunRecord]) -> dict[tuple[int, str], list[float]]:
    """For each depth and method, the learning rates with the best training ELBO."""
    elbos: dict[tuple[int, str], dict[float, float]] = {}
    for run in runs:
        rates = elbos.setdefault((run.layers or 0, run.method), {})
        rates[run.settings["learning_rate"]] = run.final["train_elbo"]
    return {
        key: sorted(sorted(rates, key=lambda rate: rates[rate], reverse=True)[:KEPT])
        for key, rates in elbos.items()
    }


def plan() -> None:
    """Writes the plan of 40 epochs, for the rates that pruning has left."""
    lines = [
        'about = "every method at its best learning rates: 40 epochs of the discrete VAEs"',
        "",
        "# Written by docs/results/beyond.py from the runs of beyond-prune.toml.",
        "[settings]",
        'task = "vae"',
        "epochs = 40",
        'schedule = ["constant", "cosine"]',
    ]
    rates = best_rates(finished("beyond-prune"))
    if not rates:
        raise SystemExit(f"no finished runs of beyond-prune in {RUNS}: collect them first")
    for (layers, method), kept in rates.items():
        lines += ["", "[[grid]]", f"layers = {layers}", f'estimator = "{method}"']
        lines += [f"learning_rate = {kept}"]
    path = PLANS / "beyond-tuned.toml"
    path.write_text("\n".join(lines) + "\n")
    print(f"wrote {path}")


def setting(name: str) -> Cell:
    """A setting of a run, as it stands in a table."""
    return lambda run: run.settings[name]


def metric(name: str, decimals: int = 1) -> Cell:
    """The last value of a metric; nothing where it was not measured."""
    return lambda run: f"{run.final[name]:.{decimals}f}" if name in run.final else ""


def active(run: RunRecord) -> str:
    """How many units of each layer are active in the end."""
    counts = [count for name, count in run.final.items() if name.startswith("active_units/")]
    return " / ".join(str(int(count)) for count in counts)


def minutes(run: RunRecord) -> str:
    """How long it took."""
    return f"{run.summary['seconds'] / 60:.0f}"


def to_the_paper(run: RunRecord) -> str:
    """The test bound, less the best one of the paper for this depth."""
    return f"{run.final['test_bound'] - PAPER[run.layers or 0]:+.1f}"


COLUMNS: dict[str, Cell] = {
    "layers": lambda run: run.layers,
    "method": lambda run: run.method,
    "rate": setting("learning_rate"),
    "schedule": setting("schedule"),
    "KL warm-up": setting("kl_warmup"),
    "seed": lambda run: run.seed,
    "training ELBO": metric("train_elbo"),
    "test bound": metric("test_bound"),
    "less the paper's": to_the_paper,
    "variance": metric("gradient_variance", 3),
    "active units": active,
    "minutes": minutes,
}
MEASURED = ("training ELBO", "test bound", "variance", "active units")
TABLES = {  # the columns of each plan's table
    "beyond-prune": ("layers", "method", "rate", "training ELBO", "variance", "active units"),
    "beyond-tuned": ("layers", "method", "rate", "schedule", *MEASURED),
    "beyond-aim": ("layers", "method", "rate", "seed", "less the paper's", *MEASURED, "minutes"),
    "beyond-warmup": ("method", "KL warm-up", *MEASURED),
}


def table(plan: str) -> str:
    """The finished runs of a plan, a row each."""
    names, runs = TABLES[plan], finished(plan)
    if not runs:
        return "No run is finished yet."
    rows = [names, ["---"] * len(names), *([COLUMNS[name](run) for name in names] for run in runs)]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in rows)


def with_tables(page: str) -> str:
    """The page, with what is between its marks made anew."""
    for plan in TABLES:
        begin, end = f"<!-- {plan} -->", f"<!-- end of {plan} -->"
        if not (begin in page and end in page):
            raise SystemExit(f"{PAGE} has no place for the table of {plan}: {begin} ... {end}")
        before, _, rest = page.partition(begin)
        _, _, after = rest.partition(end)
        page = f"{before}{begin}\n{table(plan)}\n{end}{after}"
    return page


def main() -> None:
    """Does one of the three."""
    parser = argparse.ArgumentParser(description="The tables of docs/results/beyond.md.")
    parser.add_argument("what", choices=["collect", "plan", "tables"])
    parser.add_argument("runs", nargs="*", type=Path, help="directories of runs, to collect")
    arguments = parser.parse_args()
    if arguments.what == "collect":
        collect(arguments.runs)
    elif arguments.what == "plan":
        plan()
    else:
        PAGE.write_text(with_tables(PAGE.read_text()))
        print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
