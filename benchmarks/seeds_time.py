"""Seeds side by side in one program, against the same seeds one after another.

    python benchmarks/seeds_time.py

Epochs of both alternate in one process, with everything that an epoch does on the device.
"""

import argparse
from dataclasses import replace

import jax
from rich.console import Console
from rich.table import Table
from timing import alternate

from hnca.lab.experiments import VAE, AbstractExperiment, Bandit
from hnca.lab.training import Trainer

EXPERIMENTS = (Bandit(layers=3), VAE(layers=1))


class Seeds:
    """The seeds of an experiment, some of them in a program."""

    def __init__(self, experiment: AbstractExperiment, seeds: int, at_once: int):
        self.trainer = Trainer(experiment, experiment.data(None, print))
        self.groups = [range(seed, seed + at_once) for seed in range(0, seeds, at_once)]
        self.states = [[self.trainer.start(seed) for seed in group] for group in self.groups]
        self.trainer.compile(self.states[0])
        self.epoch = 0

    def __call__(self) -> None:
        """One epoch of each."""
        self.epoch += 1
        for number, group in enumerate(self.groups):
            results = self.trainer.train(self.states[number], group, self.epoch)
            self.states[number] = [state for state, _ in results]
            jax.block_until_ready([metrics for _, metrics in results])


def main() -> None:
    """Prints the ratio of the times."""
    parser = argparse.ArgumentParser(description="Seeds side by side.")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--train-size", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--estimator", default="hnca+baseline")
    arguments = parser.parse_args()
    options = {"train_size": arguments.train_size, "estimator": arguments.estimator}
    options["dataset"], count = "glyphs", arguments.seeds
    table = Table("run", f"{count} seeds one by one, ms", "side by side, ms", "ratio")
    for experiment in EXPERIMENTS:
        experiment = replace(experiment, **options)
        contenders = {
            "one by one": Seeds(experiment, count, at_once=1),
            "side by side": Seeds(experiment, count, at_once=count),
        }
        times = alternate(contenders, rounds=arguments.rounds, steps=1, warmup=1)
        medians = [f"{times.median(name):.0f}" for name in contenders]
        ratio = times.ratio("side by side", to="one by one")
        table.add_row(experiment.title, *medians, f"{ratio:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
