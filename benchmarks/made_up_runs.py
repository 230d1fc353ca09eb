"""Run directories that nobody trained: the files of a run, with metrics made up in no time."""

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np

from hnca.lab.experiments import EXPERIMENTS, AbstractExperiment
from hnca.lab.files import write_json
from hnca.lab.report.paper import published_bounds
from hnca.lab.training import RunDirectory

METHODS = ("reinforce", "reinforce+baseline", "loo", "disarm", "hnca", "hnca+baseline")  # to best


def make_run(
    path: Path, experiment: AbstractExperiment, data: str = "mnist", done: int | None = None
) -> RunDirectory:
    """A run of as many epochs as were asked for, or one that is not done yet."""
    directory = RunDirectory(path)
    path.mkdir(parents=True)
    write_json(directory.config, _config(experiment, data))
    entries = _entries(experiment, experiment.epochs if done is None else done)
    directory.write_metrics(entries)
    if done is None:
        final = entries[-1] | _tested(experiment, entries[-1][f"train_{experiment.measure}"])
        summary = {"title": experiment.title, "epochs": len(entries), "final": final}
        write_json(directory.summary, summary | {"seconds": 2.0 * len(entries)})
    return directory


def _config(experiment: AbstractExperiment, data: str) -> dict[str, Any]:
    published = published_bounds()
    fingerprint = published.fingerprint if data == published.dataset else "0" * 64
    task = next(name for name, kind in EXPERIMENTS.items() if kind is type(experiment))
    return {
        "task": task,
        "settings": dataclasses.asdict(experiment),
        "data": {"name": data, "fingerprint": fingerprint, "source": "made up"},
        "command": f"hnca train {task}",
        "versions": {"python": "3.11.0", "hnca": "0.1.0", "jax": "0.10.2"},
        "device": "1 x cpu, float32",
    }


def _entries(experiment: AbstractExperiment, epochs: int) -> list[dict[str, Any]]:
    """Curves that rise to a level, and fall in variance, with the noise of a seed."""
    best = METHODS.index(experiment.estimator) if experiment.estimator in METHODS else 0
    best -= 0.5 * (experiment.learning_rate != 1e-4) + 0.4 * ("-unpruned" in experiment.title)
    random = np.random.default_rng(experiment.seed)
    pace, luck = 4 + 4 * best, random.normal()
    layers = getattr(experiment, "layers", None) or 1
    entries = []
    for epoch in range(1, epochs + 1):
        way = 1 - math.exp(-pace * epoch / (epochs + 20))
        entry: dict[str, Any] = {"epoch": epoch, "step": 1200 * epoch, "seconds": 2.0}
        value = 0.1 + 0.12 * (1 + best + 0.2 * luck) * way
        if experiment.measure == "elbo":
            value = -220 + (100 + 3 * best + 0.5 * luck) * way
        entry[f"train_{experiment.measure}"] = value
        if epoch % experiment.eval_every == 0:
            entry |= _tested(experiment, value)
        variance = math.exp(2 - 1.5 * best - way + 0.2 * luck + 0.05 * random.normal())
        names = ["", *(f"/h{layer + 1}" for layer in range(layers))]
        entries.append(entry | {f"gradient_variance{name}": variance for name in names})
    return entries


def _tested(experiment: AbstractExperiment, value: float) -> dict[str, float]:
    if experiment.measure == "accuracy":
        return {"test_accuracy": value + 0.01}
    return {"test_elbo": value + 0.5, "test_bound": value + 6}
