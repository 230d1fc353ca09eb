"""`hnca evaluate`: the multi-sample bound of a trained VAE."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import tyro

from ..errors import UserError
from .usage import parse


@dataclass(frozen=True)
class Evaluate:
    """A lower bound on the log-likelihood of the test images under a trained VAE: the more samples,
    the closer. It is printed, and written into the run's summary.json."""

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """Directory of the run."""
    samples: int = 100
    """Samples for each image; 100 in the paper."""
    seed: int = 0
    """Of the samples and of the binarisation of the test images."""
    data_dir: Path | None = None
    """Where to look for the data set first."""


def main(arguments: list[str]) -> None:
    """Evaluates a run."""
    asked = parse(Evaluate, "hnca evaluate", arguments)
    from rich.progress import track

    from ..experiments import VAE
    from ..files import write_json
    from ..training import RunDirectory, keep_compiled
    from ..training.evaluation import evaluate
    from ..training.stored import read_run

    keep_compiled()
    directory = RunDirectory(asked.run)
    stored = read_run(directory, asked.data_dir)
    if not isinstance(stored.experiment, VAE):
        raise UserError(f"{asked.run} is a {stored.experiment.name}: only a vae has a likelihood")
    experiment = replace(stored.experiment, eval_samples=asked.samples, seed=asked.seed)
    experiment.check()
    bar = lambda starts: track(starts, description="test images", transient=True)
    with directory.lock():
        measured = evaluate(experiment, stored.graph, stored.test_set, asked.seed, bar)
        result = {"epoch": stored.epoch, "samples": asked.samples} | measured
        write_json(directory.summary, directory.read_summary() | {"evaluation": result})
    print(f"{experiment.title}, after {stored.epoch} epochs, on {result['images']:,} test images:")
    for name, what in (("test_elbo", "1 sample"), ("test_bound", f"{asked.samples} samples")):
        error = result[f"{name}_standard_error"]
        print(f"  {name:10} {result[name]:.2f}  (standard error {error:.2f}; {what})")
    print(f"written to {directory.summary}")
