"""What a report of many runs costs.

    make bench

200 runs of 840 epochs, made up: the paper's six methods for VAEs of 1 to 3 layers, by as many
seeds as that takes. Reading and averaging them, then the whole report, figures and all.
"""

import argparse
import tempfile
import time
from itertools import count, islice, product
from pathlib import Path

from made_up_runs import METHODS, make_run

from hnca.lab.experiments import VAE
from hnca.lab.report import find_runs, read_runs, write_report
from hnca.lab.report.groups import panels_of


def main() -> None:
    """Makes runs up, reads them, and prints the times."""
    parser = argparse.ArgumentParser(description="What a report of many runs costs.")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--epochs", type=int, default=840)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        runs = Path(place) / "runs"
        plan = ((s, n, m) for s in count() for n, m in product((1, 2, 3), METHODS))
        for seed, layers, method in islice(plan, asked.runs):
            settings = {"layers": layers, "estimator": method, "seed": seed}
            run = VAE(epochs=asked.epochs, **settings)
            make_run(runs / f"{run.title}-{seed}", run)
        began = time.perf_counter()
        collection = read_runs(find_runs([runs]))
        panels = panels_of(collection.runs)
        averaged = [
            group.curve(name)
            for panel in panels
            for group in panel.groups
            for name in group.any.curves
        ]
        aggregated = time.perf_counter()
        write_report(collection, Path(place) / "report")
        written = time.perf_counter()
        size = (Path(place) / "report" / "index.html").stat().st_size / 1e6
    print(f"{len(collection.runs)} runs of {asked.epochs} epochs, {len(averaged)} mean curves")
    print(f"reading and averaging  {aggregated - began:.1f} s")
    print(f"the whole report       {written - began:.1f} s, a page of {size:.1f} MB")


if __name__ == "__main__":
    main()
