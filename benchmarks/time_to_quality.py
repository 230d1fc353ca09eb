"""What a result costs: the ELBO against seconds, and when HNCA has what DisARM ends with.

    python benchmarks/time_to_quality.py                # 40 epochs of each: nothing else may run

Trains the paper's 3-layer VAE on MNIST by each method with `hnca train`, whose runs resume:
interrupted, the same command goes on. Never two at once: they take turns, a few epochs each, so
that what slows the machine for a while slows all of them. Seconds are those of the epochs, as the
runs record them: measuring the variance included, compiling not; tests are next to nothing, with
one sample an image. Writes time_to_quality.json and time_to_quality.png. Other flags go to
`hnca train`.
"""

import argparse
import json
import subprocess
import sys
from itertools import accumulate, pairwise
from pathlib import Path
from statistics import median

import matplotlib

from hnca.kernels import native
from hnca.lab.training import RunDirectory

matplotlib.use("Agg")
import matplotlib.pyplot as plt

HERE = Path(__file__).parent
METHODS = ("hnca+baseline", "disarm", "loo", "reinforce+baseline")
OURS, RIVAL = METHODS[:2]
TURN = 10  # epochs

Curve = tuple[list[float], list[float]]  # seconds so far and ELBO, by epoch


def train(method: str, out: Path, epochs: int, more: list[str]) -> None:
    """The run of a method: from the start, from where it was left, or not at all."""
    settings = ["--layers", "3", "--estimator", method, "--epochs", str(epochs)]
    settings += ["--eval-samples", "1", *more]
    command = [sys.executable, "-m", "hnca", "train", "vae", *settings, "--out", str(out)]
    subprocess.run(command, check=True)


def curve(directory: Path, epochs: int) -> Curve:
    """What a run measured. Of its first epochs: it may have been given more before."""
    entries = RunDirectory(directory).read_metrics()[:epochs]
    return (
        list(accumulate(entry["seconds"] for entry in entries)),
        [entry["train_elbo"] for entry in entries],
    )


def seconds_to(bound: float, measured: Curve) -> float | None:
    """When the curve first is at the bound, on the line between two epochs; None if never."""
    before = None
    for now in zip(*measured, strict=True):
        if now[1] >= bound:
            if before is None:
                return now[0]
            share = (bound - before[1]) / (now[1] - before[1])
            return before[0] + share * (now[0] - before[0])
        before = now
    return None


def steadily(measured: Curve) -> Curve:
    """The same with the median time for every epoch: what slowed the machine for a while is out."""
    seconds, elbo = measured
    each = median(after - before for before, after in pairwise([0.0, *seconds]))
    return [each * (number + 1) for number in range(len(seconds))], elbo


def share_of_time(curves: dict[str, Curve]) -> float | None:
    """The time at which HNCA has what DisARM ends with, as a share of DisARM's."""
    seconds, elbo = curves[RIVAL]
    reached = seconds_to(elbo[-1], curves[OURS])
    return None if reached is None else round(reached / seconds[-1], 3)


def plot(curves: dict[str, Curve], reached: float | None, path: Path) -> None:
    """ELBO against seconds, with the two times of the claim."""
    figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    for name, (seconds, elbo) in curves.items():
        axes.plot(seconds, elbo, label=name)
    bound = curves[RIVAL][1][-1]
    axes.axhline(bound, color="grey", linewidth=0.8, linestyle=":")
    for time in (reached, curves[RIVAL][0][-1]):
        if time is not None:
            axes.plot([time], [bound], "ko", markersize=4)
    lowest = min(elbo[min(2, len(elbo) - 1)] for _, elbo in curves.values())
    axes.set(xlabel="seconds of training", ylabel="training ELBO (nats)", ylim=(lowest, None))
    axes.legend()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main() -> None:
    """Trains what is missing, prints the share, writes the figure."""
    parser = argparse.ArgumentParser(description="The ELBO against seconds.")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--runs", type=Path, default=Path("runs/time-to-quality"))
    parser.add_argument("--out", type=Path, default=HERE, help="directory for figure and numbers")
    arguments, more = parser.parse_known_args()
    for turn in range(0, arguments.epochs, TURN):
        for method in METHODS:
            until = min(turn + TURN, arguments.epochs)
            train(method, arguments.runs / method, until, more)
    curves = {method: curve(arguments.runs / method, arguments.epochs) for method in METHODS}
    bound, share = curves[RIVAL][1][-1], share_of_time(curves)
    reached = seconds_to(bound, curves[OURS])
    steady = {method: steadily(each) for method, each in curves.items()}
    record = {
        "epochs": arguments.epochs,
        "kernel": native.kernel().name,
        f"{RIVAL}'s ELBO in the end": bound,
        f"share of {RIVAL}'s time in which {OURS} has it": share,
        "the same with the median time for every epoch": share_of_time(steady),
        "seconds and ELBO": curves,
    }
    (arguments.out / "time_to_quality.json").write_text(json.dumps(record, indent=2) + "\n")
    plot(curves, reached, arguments.out / "time_to_quality.png")
    told = "not within as many epochs" if share is None else f"in {share:.2f} of its time"
    print(f"what {RIVAL} has after {arguments.epochs} epochs ({bound:.2f}), {OURS} has {told}")


if __name__ == "__main__":
    main()
