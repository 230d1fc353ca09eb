"""Learning curves of several runs side by side, as in the paper's figures.

    python examples/compare_runs.py runs/bandit-* -o curves.png

A row for each size of network, a line for each method: the objective on the left (dotted while
training and solid on the test images, where these were used all along), the natural logarithm of
the mean gradient variance on the right, and the last values in a table (for a VAE, the test is its
multi-sample bound).
"""

import argparse
import math
from collections import defaultdict
from pathlib import Path

from matplotlib.figure import Figure

from hnca.experiments import experiment_from
from hnca.training import RunDirectory

COLORS = {
    "hnca": "tab:blue",
    "hnca+baseline": "tab:green",
    "reinforce": "tab:red",
    "reinforce+baseline": "tab:orange",
    "loo": "tab:purple",
    "loo-independent": "tab:pink",
    "disarm": "tab:brown",
    "arm": "tab:olive",
    "straight-through": "tab:gray",
}


def read(paths: list[Path], epochs: int | None) -> dict[str, dict[str, list[dict]]]:
    """The metrics of each run, up to an epoch, by network, then by method."""
    rows: dict[str, dict[str, list[dict]]] = defaultdict(dict)
    for path in paths:
        config, metrics = RunDirectory(path).read_config(), RunDirectory(path).read_metrics()
        experiment = experiment_from(config)
        network = experiment.title.removesuffix(f"-{experiment.estimator}")
        if experiment.estimator in rows[network]:
            raise SystemExit(f"{path}: a second run of {experiment.title}; name one of them only")
        rows[network][experiment.estimator] = metrics[:epochs]
    return rows


def draw(rows: dict[str, dict[str, list[dict]]], out: Path) -> None:
    """A row of two panels for each network."""
    figure = Figure(figsize=(11, 3.6 * len(rows)), layout="constrained")
    panels = figure.subplots(len(rows), 2, squeeze=False)
    for (network, runs), (objective, variance) in zip(sorted(rows.items()), panels, strict=True):
        for method, metrics in sorted(runs.items()):
            epochs = [entry["epoch"] for entry in metrics]
            line = {"color": COLORS.get(method), "marker": "." if len(epochs) < 3 else None}
            (train,) = [name for name in metrics[0] if name.startswith("train_")]
            values = [entry[train] for entry in metrics]
            test = train.replace("train", "test")
            tested = [(entry["epoch"], entry[test]) for entry in metrics if test in entry]
            curve = len(tested) > 1
            objective.plot(epochs, values, ":" if curve else "-", **line)
            if curve:
                objective.plot(*zip(*tested, strict=True), "-", **line)
            logs = [math.log(entry["gradient_variance"]) for entry in metrics]
            variance.plot(epochs, logs, "-", label=f"{method} ({logs[-1]:.2f})", **line)
            objective.plot([], [], "-", label=f"{method} ({values[-1]:.4g})", **line)
        objective.set(ylabel=train.removeprefix("train_"), title=network)
        variance.set(ylabel="ln mean gradient variance", title=network)
        for axes in (objective, variance):
            axes.set_xlabel("epoch")
            axes.xaxis.get_major_locator().set_params(integer=True)
            axes.grid(alpha=0.3)
            axes.legend(fontsize="small")
    figure.savefig(out, dpi=110)


def table(rows: dict[str, dict[str, list[dict]]]) -> str:
    """The last values, in Markdown."""
    lines = ["| network | method | epochs | train | test | ln variance |", "|---" * 6 + "|"]
    for network, runs in sorted(rows.items()):
        for method, metrics in sorted(runs.items()):
            last = metrics[-1]
            train = next(value for name, value in last.items() if name.startswith("train_"))
            test = last.get("test_bound", last.get("test_accuracy", math.nan))
            figures = [f"{train:.4g}", f"{test:.4g}"]
            log = f"{math.log(last['gradient_variance']):.2f}"
            cells = [network, method, str(last["epoch"]), *figures, log]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Draws, and prints the table."""
    parser = argparse.ArgumentParser(description="Learning curves of several runs side by side.")
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("-o", "--out", type=Path, help="the picture; none by default")
    parser.add_argument("--epoch", type=int, help="up to this epoch only")
    arguments = parser.parse_args()
    rows = read(arguments.runs, arguments.epoch)
    if arguments.out:
        draw(rows, arguments.out)
    print(table(rows))


if __name__ == "__main__":
    main()
