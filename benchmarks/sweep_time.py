"""What a second worker gains: a sweep of equal runs with one local worker and with two.

    make bench

Both sweeps are what `hnca sweep --workers N` does, started as such: in both, each worker is a
process with one thread. Programs are compiled, and kept, before either; the sweeps alternate.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

BAR = 0.6  # of the time of one worker
PLAN = """\
[[grid]]
task = "bandit"
layers = 3
dataset = "glyphs"
train_size = 20_000
epochs = {epochs}
seeds = [{seeds}]
"""


def sweep(directory: Path, workers: int, epochs: int, runs: int) -> float:
    """Seconds of a whole command, from nothing to the last run."""
    plan, out = directory / "plan.toml", directory / f"out-{time.monotonic_ns()}"
    plan.write_text(PLAN.format(epochs=epochs, seeds=", ".join(map(str, range(runs)))))
    command = [sys.executable, "-m", "hnca", "sweep", plan, "--out", out, "--workers", workers]
    began = time.perf_counter()
    subprocess.run([str(each) for each in command], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def main() -> None:
    """Prints both times and their ratio. Exits with 1 where the bar is missed."""
    parser = argparse.ArgumentParser(description="What a second worker gains.")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    one, two = [], []
    with tempfile.TemporaryDirectory() as directory:
        sweep(Path(directory), 2, 1, 2)  # warms up
        for _ in range(arguments.rounds):
            for workers, times in ((1, one), (2, two)):
                times.append(sweep(Path(directory), workers, arguments.epochs, arguments.runs))
                print(f"{workers} worker(s), of one thread each: {times[-1]:.1f} s", flush=True)
    ratio = median(mine / other for mine, other in zip(two, one, strict=True))
    print(f"{arguments.runs} equal runs: two workers take {ratio:.2f} of the time of one", end=", ")
    print(f"each worker in one thread (at most {BAR})")
    raise SystemExit(0 if ratio <= BAR else 1)


if __name__ == "__main__":
    main()
