"""`hnca evaluate`: the multi-sample bound of a trained VAE."""

import json
from dataclasses import dataclass
from pathlib import Path

from ..errors import UserError
from .usage import parse


@dataclass(frozen=True)
class Evaluate:
    """A lower bound on the log-likelihood of the test images under a trained VAE, the closer, the
    more samples. It is printed, and written into the run's summary.json."""

    run: Path
    """Directory of the run."""
    samples: int = 100
    """Samples for each image; 100 in the paper."""
    seed: int = 0
    """Of the samples and of the binarisation of the test images."""
    data_dir: Path | None = None
    """Where to look for the data set first."""


def main(arguments: list[str]) -> None:
    """Evaluates a run."""
    import tyro

    asked = parse(Evaluate, "hnca evaluate", arguments, config=(tyro.conf.PositionalRequiredArgs,))
    if asked.samples < 1:
        raise UserError(f"--samples must be 1 or more, not {asked.samples}")
    from rich.progress import track

    from ..experiments import VAE
    from ..training import RunDirectory
    from ..training.evaluation import evaluate_bound
    from ..training.files import write_json
    from ..training.stored import read_run
    from .train import keep_compiled

    keep_compiled()
    directory = RunDirectory(asked.run)
    experiment, data, graph, epoch = read_run(directory, asked.data_dir)
    if not isinstance(experiment, VAE):
        raise UserError(f"{asked.run} is a {experiment.name}: only a vae has a likelihood")
    bar = lambda starts: track(starts, description="test images", transient=True)
    result = {"epoch": epoch} | evaluate_bound(graph, data, asked.samples, asked.seed, bar)
    with directory.lock():
        before = json.loads(directory.summary.read_text()) if directory.summary.exists() else {}
        write_json(directory.summary, before | {"evaluation": result})
    print(
        f"{experiment.title}, after {epoch} epochs: test bound {result['test_bound']:.2f} "
        f"(standard error {result['standard_error']:.2f} over {result['images']:,} images, "
        f"{asked.samples} samples each)\nwritten to {directory.summary}"
    )
