"""`hnca evaluate`: the test of a trained run, once more."""

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated

from ..errors import UsageError, UserError
from ..settings import Flag
from ..words import counted
from .usage import parse, read_run


@dataclass(frozen=True)
class Evaluate:
    """Tests a trained run once more, with standard errors over the test data. For a VAE that is a
    lower bound on the log-likelihood of the test images: the more samples, the closer. What comes
    of it is printed, and written into the run's summary.json."""

    run: Annotated[Path, Flag(positional=True, metavar="RUN")]
    """Directory of the run."""
    samples: int | None = None
    """Samples for each image, of a VAE; 100 in the paper, and the run's own number by default."""
    seed: int = 0
    """Of the samples, and of whatever is random in the test data."""
    task: Annotated[str | None, Flag(metavar="FILE:CLASS")] = None
    """The experiment, if it is one of your own. The file is imported; nothing that the run's own
    files name ever is."""
    data_dir: Annotated[Path | None, Flag(metavar="DIRECTORY")] = None
    """Where to look for the data set first."""


def main(arguments: list[str]) -> None:
    """Evaluates a run."""
    asked = parse(Evaluate, "hnca evaluate", arguments)
    if asked.samples is not None and asked.samples < 1:
        raise UsageError(f"--samples must be 1 or more, not {asked.samples}")
    from rich.progress import track

    from ..files import write_json
    from ..training import RunDirectory, keep_compiled
    from ..training.evaluation import evaluate

    keep_compiled()
    directory = RunDirectory(asked.run)
    directory.read_summary()  # what cannot be read is refused now, not after the work
    trained = read_run(directory, asked.task, asked.data_dir)
    experiment = replace(trained.experiment, seed=asked.seed)
    sampled = "eval_samples" in {field.name for field in fields(experiment)}
    if asked.samples is not None:
        if not sampled:
            raise UserError(f"{asked.run}: its experiment has no --eval-samples: drop --samples")
        experiment = replace(experiment, eval_samples=asked.samples)
    experiment.check()
    bar = lambda starts: track(starts, description="test data", transient=True)
    told = {"samples": getattr(experiment, "eval_samples", 1)} if sampled else {}
    with directory.lock():
        measured = evaluate(experiment, trained.graph, trained.data.test, asked.seed, bar)
        result = {"epoch": trained.epoch} | told | measured
        after = f"after {counted(trained.epoch, 'epoch')}"
        print(f"{experiment.title}, {after}, on {counted(result['examples'], 'example')}:")
        for name in [name for name in measured if f"{name}_standard_error" in measured]:
            error = result[f"{name}_standard_error"]
            print(f"  {name:10} {result[name]:.2f}  (standard error {error:.2f})")
        if told:
            print(f"with {counted(told['samples'], 'sample')} for a bound", flush=True)
        write_json(directory.summary, directory.read_summary() | {"evaluation": result})
    print(f"written to {directory.summary}")
