"""What test_devices runs in processes of its own, where JAX has not started yet.

python several_devices.py OUT --devices 2 [--coordinator HOST:PORT --processes 2 --process 0]
"""

import json
import re
import sys
from pathlib import Path

import tyro

from hnca.cli.hardware import Hardware
from hnca.cli.progress import reporter
from hnca.experiments import VAE, Bandit
from hnca.training import Devices, Engine, RunDirectory, train
from test_runs import DATA

# Plain gradient steps: Adam divides by the size of a gradient, and makes much of one that is
# nothing but rounding.
COMMON = {"epochs": 2, "batch_size": 10, "optimizer": "sgd", "learning_rate": 0.1}
EXPERIMENTS = [
    Bandit(layers=2, units=4, **COMMON),
    VAE(layers=2, units=(4,), eval_every=1, eval_samples=3, **COMMON),
]


def shapes(devices: Devices) -> dict[str, list[str]]:
    """The shapes of images in the compiled programs of an epoch and of a test."""
    engine = Engine(EXPERIMENTS[0], DATA, devices)
    engine.compile([devices.everywhere(engine.start())])
    programs = {"epoch": engine._epoch, "test": engine._test}
    texts = {name: each._compiled[1].compiled.as_text() for name, each in programs.items()}
    return {name: sorted(set(re.findall(r"f32\[([\d,]*\b36)\]", t))) for name, t in texts.items()}


def main() -> None:
    out, *flags = sys.argv[1:]
    devices = tyro.cli(Hardware, args=flags).claim()
    for experiment in EXPERIMENTS:
        directory = RunDirectory(Path(out) / experiment.name)
        train(experiment, DATA, directory, reporter(experiment), devices=devices)
    print("shapes", json.dumps(shapes(devices)))


if __name__ == "__main__":
    main()
