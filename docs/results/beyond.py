"""Makes docs/results/beyond.md's tables and figures from the metrics that are committed beside it.

    hnca sweep docs/results/beyond/beyond-prune.toml    # hours; the same command goes on
    python docs/results/beyond.py collect runs/beyond-prune
    python docs/results/beyond.py plan                  # writes beyond-tuned.toml
    hnca sweep docs/results/beyond/beyond-tuned.toml
    python docs/results/beyond.py collect runs/beyond-tuned
    python docs/results/beyond.py write                 # tables into beyond.md, and figures

`beyond-aim.toml`, `beyond-full.toml` and `beyond-warmup.toml` do not depend on the others.
"""

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from beyond_figures import course_figure, rates_figure, units_figure
from committed import (
    active,
    collect,
    in_markdown,
    in_the_papers_settings,
    missing_runs,
    rate_of,
    read_committed,
    write_page,
)

from hnca.lab.experiments import VAE
from hnca.lab.report.paper import published_bounds
from hnca.lab.report.record import RunRecord
from hnca.lab.sweep.plans import read_plan

HERE = Path(__file__).parent
PAGE, PLANS = HERE / "beyond.md", HERE / "beyond"
RUNS = PLANS / "runs"  # by plan and name
PRUNE = "beyond-prune"  # the plan of the first stage
NEAR = 3.0  # nats
COMMON = 3e-3  # the rate of `--preset best`
RIVALS = "disarm", "loo"

Cell = Callable[[RunRecord], Any]


def finished(plan: str) -> list[RunRecord]:
    """The committed runs of a plan that are complete, by depth and method."""
    found = read_committed(RUNS / plan).runs
    order = lambda run: (run.layers or 0, run.method, *map(str, run.settings.values()), run.seed)
    return sorted((run for run in found if run.complete), key=order)


def by_rate(runs: Iterable[RunRecord]) -> dict[tuple[int, str], dict[float, RunRecord]]:
    """For each depth and method, the runs by their learning rates."""
    found: dict[tuple[int, str], dict[float, RunRecord]] = {}
    for run in runs:
        rates = found.setdefault((run.layers or 0, run.method), {})
        rates[rate_of(run)] = run
    return found


def planned_rates() -> dict[tuple[int, str], list[float]]:
    """For each depth and method, the learning rates that the first stage is to try."""
    found: dict[tuple[int, str], list[float]] = {}
    for each in read_plan(str(PLANS / f"{PRUNE}.toml")).experiments:
        assert isinstance(each, VAE)
        found.setdefault((each.depth, each.estimator), []).append(each.learning_rate)
    return {key: sorted(found[key]) for key in sorted(found)}


def best_rate(rates: dict[float, RunRecord]) -> float:
    """The learning rate that led to the best training ELBO."""
    return max(rates, key=lambda rate: rates[rate].final["train_elbo"])


def plan() -> None:
    """Writes the plan of 40 epochs: at a constant rate the best of each method, and falling to zero
    every rate that came within `NEAR` of it, for ten epochs cannot tell such rates apart, and one
    that all have in common. Ten epochs are kind to large rates, so the strongest rivals have the
    next smaller one, too."""
    lines = [
        'about = "every method at its best learning rates: 40 epochs of the discrete VAEs"',
        "",
        "# Written by docs/results/beyond.py from the runs of beyond-prune.toml.",
        "[settings]",
        'task = "vae"',
        "epochs = 40",
    ]
    methods = by_rate(finished(PRUNE))
    for (layers, method), rates in planned_rates().items():
        found = methods.get((layers, method), {})
        if missing := [rate for rate in rates if rate not in found]:
            which = f"{layers} layers, {method}, {', '.join(map(str, missing))}"
            raise SystemExit(f"runs of {PRUNE} are missing in {RUNS}: {which}. Collect them first.")
        best = best_rate(found)
        reached = {rate: found[rate].final["train_elbo"] for rate in rates}
        falling = {rate for rate in rates if reached[rate] > reached[best] - NEAR} | {COMMON}
        if method in RIVALS:
            falling.add(max(rate for rate in rates if rate < COMMON))
        for schedule, chosen in (("cosine", sorted(falling)), ("constant", [best])):
            lines += ["", "[[grid]]", f"layers = {layers}", f'estimator = "{method}"']
            lines += [f'schedule = "{schedule}"', f"learning_rate = {chosen}"]
    path = PLANS / "beyond-tuned.toml"
    path.write_text("\n".join(lines) + "\n")
    print(f"wrote {path}")


def setting(name: str) -> Cell:
    """A setting of a run, as it stands in a table."""
    return lambda run: run.settings[name]


def metric(name: str, decimals: int = 1) -> Cell:
    """The last value of a metric; nothing where it was not measured."""
    return lambda run: f"{run.final[name]:.{decimals}f}" if name in run.final else ""


def best_published(layers: int | None) -> tuple[float, str]:
    """The best test bound of the paper for a depth, and its method."""
    cells = published_bounds().values.items()
    return max((cell.mean, method) for (method, depth), cell in cells if depth == layers)


def to_the_paper(run: RunRecord) -> str:
    """The test bound, less the best one of the paper for this depth."""
    best, _ = best_published(run.layers)
    return f"{run.final['test_bound'] - best:+.1f}"


COLUMNS: dict[str, Cell] = {
    "layers": lambda run: run.layers,
    "method": lambda run: run.method,
    "rate": setting("learning_rate"),
    "schedule": setting("schedule"),
    "KL warm-up": setting("kl_warmup"),
    "seed": lambda run: run.seed,
    "training ELBO": metric("train_elbo"),
    "test bound": metric("test_bound"),
    "beside the paper": to_the_paper,
    "variance": metric("gradient_variance", 3),
    "active units": active,
}
MEASURED = ("training ELBO", "test bound", "variance", "active units")
BESIDE_THE_PAPER = ("layers", "method", "rate", "seed", "beside the paper", *MEASURED)
TABLES = {  # the columns of each plan's table
    "beyond-tuned": ("layers", "method", "rate", "schedule", *MEASURED),
    "beyond-aim": BESIDE_THE_PAPER,
    "beyond-full": BESIDE_THE_PAPER,
    "beyond-warmup": ("method", "KL warm-up", *MEASURED),
}


def section(plan: str) -> str:
    """A plan's table, and which of its runs are missing; the first stage's has dots for them."""
    path = PLANS / f"{plan}.toml"
    if plan == PRUNE:
        return table(plan)
    if not path.exists():
        return f"{table(plan)}\n\nNot planned yet: it waits for the first stage."
    return f"{table(plan)}\n\n{missing_runs(path, read_committed(RUNS / plan))}"


def table(plan: str) -> str:
    """The finished runs of a plan, a row each; of the first stage, a row for each method."""
    runs = finished(plan)
    if not runs:
        return "No run is finished yet."
    if plan == PRUNE:
        return rates_table(runs)
    names = TABLES[plan]
    return in_markdown(names, ([COLUMNS[name](run) for name in names] for run in runs))


def rates_table(runs: Iterable[RunRecord]) -> str:
    """The training ELBO of each method by learning rate: a dot where a run is missing, nothing
    where none is planned. Where all are there, the best in bold, and with it the active units."""
    methods, planned = by_rate(runs), planned_rates()
    rates = sorted({rate for found in planned.values() for rate in found})
    rows = []
    for (layers, method), wanted in planned.items():
        found, units = methods.get((layers, method), {}), ""
        shown = {rate: metric("train_elbo")(run) for rate, run in found.items()}
        if set(wanted) <= set(found):
            best = best_rate(found)
            shown[best], units = f"**{shown[best]}**", active(found[best])
        cells = [shown.get(rate, "." if rate in wanted else "") for rate in rates]
        rows.append([layers, method, *cells, units])
    return in_markdown(["layers", "method", *rates, "active units at the best"], rows)


def tables() -> dict[str, str]:
    """What the page has, by the names of its marks."""
    return {plan: section(plan) for plan in (PRUNE, *TABLES)}


def write_figures() -> None:
    """Beside the plans."""
    paper = [run for run in in_the_papers_settings() if run.method == best_published(run.layers)[1]]
    tuned = [*finished("beyond-aim"), *finished("beyond-full")]
    figures = {
        "rates": rates_figure(finished(PRUNE)),
        "course": course_figure(paper, tuned, lambda depth: best_published(depth)[0]),
        "units": units_figure(finished("beyond-warmup")),
    }
    for name, figure in figures.items():
        figure.savefig(PLANS / f"{name}.png", dpi=120)


def main() -> None:
    """Does one of the three."""
    parser = argparse.ArgumentParser(description="What docs/results/beyond.md shows of runs.")
    parser.add_argument("what", choices=["collect", "plan", "write"])
    parser.add_argument("runs", nargs="*", type=Path, help="directories of plans, to collect")
    arguments = parser.parse_args()
    if arguments.what == "collect":
        collect(arguments.runs, {plan: RUNS / plan for plan in (PRUNE, *TABLES)})
    elif arguments.what == "plan":
        plan()
    else:
        write_page(PAGE, tables())
        write_figures()


if __name__ == "__main__":
    main()
