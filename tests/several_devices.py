"""What test_devices runs in processes of its own, where JAX has not started yet.

    python several_devices.py OUT --devices 2
    python several_devices.py OUT --coordinator HOST:PORT --processes 2 --process 0

Trains on one device in `OUT/1`, on two in `OUT/2`, in two processes (a VAE) in `OUT/processes`.
"""

import json
import re
import sys
from pathlib import Path

import jax
import tyro

from hnca.cli.hardware import Hardware
from hnca.cli.progress import reporter
from hnca.experiments import VAE, AbstractExperiment, Bandit
from hnca.training import Devices, Engine, RunDirectory, train
from test_runs import DATA

# Plain gradient steps: Adam divides by the size of a gradient, and makes much of one that is
# nothing but rounding.
COMMON = {"epochs": 2, "batch_size": 10, "optimizer": "sgd", "learning_rate": 0.1}
BANDIT = Bandit(layers=1, units=4, **COMMON)
DISCRETE_VAE = VAE(units=(4, 3), eval_every=1, eval_samples=3, **COMMON)


class Observed(Engine):
    """Prints the shapes of images in its programs, those of an epoch and of a test."""

    def compile(self, states):
        super().compile(states)
        where = f"{self.experiment.name} on {len(self.devices)}"
        for name, program in (("epoch", self._epoch), ("test", self._test)):
            text = program._compiled[1].compiled.as_text()
            shapes = sorted(set(re.findall(r"f32\[([\d,]*\b36)\]", text)))
            print(f"images of {name} of {where}:", json.dumps(shapes))


def run(out: Path, devices: Devices, *experiments: AbstractExperiment) -> None:
    for experiment in experiments:
        directory = RunDirectory(out / experiment.name)
        train(experiment, DATA, directory, reporter(experiment), devices=devices)


def main() -> None:
    out, *flags = sys.argv[1:]
    devices = tyro.cli(Hardware, args=flags).claim()
    if jax.process_count() > 1:
        run(Path(out) / "processes", devices, DISCRETE_VAE)
    else:
        run(Path(out) / "2", devices, BANDIT, DISCRETE_VAE)
        run(Path(out) / "1", Devices(), BANDIT, DISCRETE_VAE)


if __name__ == "__main__":
    sys.modules["hnca.training.run"].Engine = Observed
    main()
