"""What test_devices runs in processes of its own, where JAX has not started yet.

    python several_devices.py OUT --devices 2
    python several_devices.py OUT --coordinator HOST:PORT --processes 2 --process 0

Trains on one device in `OUT/1`, on two in `OUT/2`, in two processes (a bandit) in `OUT/processes`;
and says what each of the processes is told of what befalls one of them.
"""

import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax

from hnca.lab.cli.hardware import Hardware
from hnca.lab.cli.progress import display
from hnca.lab.cli.usage import parse
from hnca.lab.experiments import VAE, AbstractImageExperiment, Bandit, task_of
from hnca.lab.training import Devices, RunDirectory, Trainer, hosts, train
from test_runs import DATA

# Plain gradient steps: Adam divides by the size of a gradient, and makes much of one that is
# nothing but rounding.
COMMON = {"epochs": 2, "batch_size": 10, "optimizer": "sgd", "learning_rate": 0.1}
BANDIT = Bandit(layers=1, units=4, estimator="reinforce", **COMMON)
DISCRETE_VAE = VAE(units=(3,), eval_every=1, eval_samples=1, **COMMON)


class Observed(Trainer):
    """Prints the shapes of images in its programs, those of an epoch and of a test."""

    def compile(self, states, *look):
        super().compile(states, *look)
        where = f"{task_of(type(self.experiment))} on {len(self.devices)}"
        for name, program in (("epoch", self._epoch), ("test", self._test)):
            text = program._compiled[1].compiled.as_text()
            shapes = sorted(set(re.findall(r"f32\[([\d,]*\b36)\]", text)))
            print(f"images of {name} of {where}:", json.dumps(shapes))


def run(out: Path, devices: Devices, *experiments: AbstractImageExperiment) -> None:
    for experiment in experiments:
        directory = RunDirectory(out / task_of(type(experiment)))
        data = experiment.images(DATA)
        train(experiment, data, directory, display(experiment), devices=devices)


def fail_apart(again: Callable[[Bandit], Any]) -> None:
    """In ways that only one of the processes can know of."""
    process = jax.process_index()
    attempts = {
        "settings": lambda: again(replace(BANDIT, seed=process)),
        "directory": lambda: again(replace(BANDIT, seed=5)),
        "first": lambda: hosts.from_first(lambda: {}["lost"]),
        "second": lambda: hosts.together(lambda: ["here"][process]),
    }
    for name, attempt in attempts.items():
        try:
            attempt()
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {error}")


def main() -> None:
    out, *flags = sys.argv[1:]
    devices = parse(Hardware, "several_devices", flags).claim()
    if jax.process_count() > 1:
        again = lambda experiment: run(Path(out) / "processes", devices, experiment)
        again(replace(BANDIT, epochs=1))
        again(BANDIT)
        fail_apart(again)
    else:
        run(Path(out) / "2", devices, BANDIT, DISCRETE_VAE)
        run(Path(out) / "1", Devices(), BANDIT, DISCRETE_VAE)


if __name__ == "__main__":
    sys.modules["hnca.lab.training.loop"].Trainer = Observed
    sys.modules["hnca.lab.training.run"].draw_curves = lambda *_: None  # which takes a while
    main()
