"""What a real epoch costs beyond its bare training steps.

    make bench

An epoch of `hnca train` shuffles and binarises the images, measures the gradient's variance at
every step, tests, and writes metrics and a checkpoint. The bare steps of the same network get
batches that lie ready, and measure nothing. Both alternate in one process.
"""

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

import jax
from rich.console import Console
from rich.table import Table

from hnca.lab.experiments import VAE, AbstractExperiment, Bandit, Step, binarise
from hnca.lab.training import RunDirectory, Trainer, TrainState, make_epoch, train

BARS = {  # the most that an epoch may cost, in bare epochs
    Bandit(layers=3): 1.3,
    VAE(layers=1, estimator="hnca"): 1.25,
}
RIVALS = ("hnca+baseline", "disarm", "loo")  # whose epochs of a 3-layer VAE are compared


class BareSteps:
    """A display that runs the bare steps between the epochs of a real run."""

    def __init__(self, experiment: AbstractExperiment, data):
        trainer = Trainer(experiment, data)
        estimator = experiment.make_estimator()
        optimizer = experiment.make_optimizer(trainer.steps * trainer.epochs)
        self.state = TrainState.start(trainer.graph, estimator, optimizer, jax.random.key(0))
        count = trainer.steps * experiment.batch_size
        images, labels = (trainer.train_set[name][:count] for name in ("image", "label"))
        x = binarise(jax.random.key(1), images.reshape(count, -1))
        split = lambda array: array.reshape(trainer.steps, experiment.batch_size, *array.shape[1:])
        self.inputs = split(x), split(labels)
        world = experiment.step({"image": images[:1], "label": labels[:1]}, jax.random.key(0)).world
        right = lambda y: (lambda sample: sample["action"] == y) if world else None
        task = lambda entry: Step({"x": entry[0]}, right(entry[1]))
        self.run = make_epoch(estimator, optimizer, task, with_variance=False)
        self.state, _ = self.run(self.state, self.inputs)  # compiles
        self.whole, self.bare, self.began = [], [], 0.0

    def say(self, message: str) -> None:
        print(message)

    def begin(self, epochs: int, done: int, steps: int) -> None:
        self.began = time.perf_counter()

    def epoch(self, entry) -> None:
        ended = time.perf_counter()
        self.whole.append(ended - self.began)
        self.state, metrics = self.run(self.state, self.inputs)
        jax.block_until_ready(metrics)
        self.began = time.perf_counter()
        self.bare.append(self.began - ended)


def measure(experiment: AbstractExperiment) -> tuple[float, float]:
    """Median seconds of a whole epoch and of its bare steps. The first epoch warms up."""
    data = experiment.data(None, print)
    steps = BareSteps(experiment, data)
    with tempfile.TemporaryDirectory() as directory:
        train(experiment, data, RunDirectory(Path(directory) / "run"), steps)
    return median(steps.whole[1:]), median(steps.bare[1:])


def main() -> None:
    """Prints the ratios. Exits with 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description="What a real epoch costs.")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--dataset", default="glyphs")
    arguments = parser.parse_args()
    options = {"epochs": arguments.epochs, "dataset": arguments.dataset}
    table = Table("run", "epoch, s", "bare steps, s", "ratio", "at most")
    met = True
    for experiment, bar in BARS.items():
        whole, bare = measure(replace(experiment, **options))
        met &= whole / bare <= bar
        ratio = f"{whole / bare:.2f}"
        table.add_row(experiment.title, f"{whole:.2f}", f"{bare:.2f}", ratio, f"{bar}")
    times = {}
    for method in RIVALS:
        experiment = VAE(layers=3, estimator=method)
        times[method], bare = measure(replace(experiment, **options))
        ratio = f"{times[method] / bare:.2f}"
        table.add_row(experiment.title, f"{times[method]:.2f}", f"{bare:.2f}", ratio, "")
    Console().print(table)
    ours, *others = times.values()
    met &= ours < min(others)
    print(f"3 layers: an epoch of {RIVALS[0]} takes {ours / min(others):.2f} of the faster rival's")
    raise SystemExit(0 if met else 1)


if __name__ == "__main__":
    main()
