"""`hnca compare`: which estimator to take, on a network of one's own."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ..errors import UsageError, UserError
from ..experiments import EXPERIMENTS, AbstractExperiment, experiment_class
from ..imported import is_named_class
from ..settings import Flag
from .train import OWN, first_sentence, preset_settings
from .usage import menu, parse_given, read_run

if TYPE_CHECKING:
    from ..training.evaluation import TrainedRun

ABOUT = (
    "Measures bias, variance and price of the estimators on one network, and says which to take."
)
EPILOG = """\
or FILE.py:CLASS, an experiment of your own, or the directory of a run, at its present parameters:
  hnca compare vae --layers 2
  hnca compare my_experiment.py:MyExperiment
  hnca compare runs/v2 -o comparison
  hnca compare vae --estimators hnca loo disarm --budget 120
Flags: --estimators, --budget, --out, --data-dir, --preset, --task, and those of the experiment;
`hnca compare vae --help` explains them.
noise is the variance for a fixed example, worth (efficiency) is 1 / (noise x time)."""
ENDING = 10.0  # seconds, for Python to start and the figure to be drawn


@dataclass(frozen=True)
class CompareOptions:
    """What to compare, and for how long."""

    estimators: Annotated[tuple[str, ...] | None, Flag(metavar="NAME")] = None
    """The methods, all of which are measured; by default all that there are, while time lasts."""
    budget: float = 60.0
    """Seconds to spend, compiling included. More of them see smaller differences."""
    out: Annotated[Path | None, Flag(short="-o", metavar="DIRECTORY")] = None
    """Write a figure, a spreadsheet and JSON there."""
    data_dir: Annotated[Path | None, Flag(metavar="DIRECTORY")] = None
    """Where to look for the data set first."""
    preset: Annotated[str | None, Flag(metavar="NAME")] = None
    """Other defaults of the settings, as for hnca train."""
    task: Annotated[str | None, Flag(metavar="FILE:CLASS")] = None
    """The experiment of a run, if it is one of your own."""


def main(arguments: list[str]) -> None:
    """Compares, and prints a table."""
    began = time.perf_counter()
    choices = {name: first_sentence(kind) for name, kind in EXPERIMENTS.items()}
    named = arguments[0] if arguments else ""
    if is_named_class(named) or (named and Path(named).is_dir()):
        choices[named] = ""
    subject, rest = menu(
        "hnca compare", ABOUT, choices, EPILOG, arguments, f"{OWN}; a run is a directory"
    )
    if subject is None:
        return
    is_run = subject not in EXPERIMENTS and not is_named_class(subject)
    kind = None if is_run else experiment_class(subject)
    settings, options = _parse(kind, subject, rest)
    from ..training import keep_compiled

    keep_compiled()
    made = _read(Path(subject), options) if kind is None else _made(kind, settings, options)
    used = time.perf_counter() - began + min(ENDING, options.budget / 4)
    _compare(made, options, max(options.budget - used, options.budget / 2))


def _parse(
    kind: type[AbstractExperiment] | None, subject: str, arguments: list[str]
) -> tuple[dict, CompareOptions]:
    prog, targets = f"hnca compare {subject}", [CompareOptions]
    if kind is None:
        [given] = parse_given(targets, prog, arguments, ABOUT)
        return {}, _checked(CompareOptions(**given))
    settings, given = parse_given([kind, *targets], prog, arguments, ABOUT, kind.presets)
    options = _checked(CompareOptions(**given))
    return {**preset_settings(kind, options.preset, subject), **settings}, options


def _checked(options: CompareOptions) -> CompareOptions:
    if not options.budget > 0:
        raise UsageError(f"--budget must be above 0 seconds, not {options.budget:g}")
    return options


def _made(kind: type[AbstractExperiment], settings: dict, options: CompareOptions) -> "TrainedRun":
    """An untrained network."""
    from ..training.evaluation import untrained

    experiment = kind(**settings)
    experiment.check()
    return untrained(experiment, experiment.data(options.data_dir, print))


def _read(path: Path, options: CompareOptions) -> "TrainedRun":
    from ..training import RunDirectory

    return read_run(RunDirectory(path), options.task, options.data_dir)


def _title(subject: "TrainedRun") -> str:
    """The network, and which method has trained it, if any has."""
    title, data = subject.experiment.title, subject.data.name
    if subject.epoch:
        return f"{title} on {data}, after {subject.epoch} epochs"
    return f"{title.replace(f'-{subject.experiment.estimator}', '')} on {data}, untrained"


def _compare(subject: "TrainedRun", options: CompareOptions, seconds: float) -> None:
    """Within so many seconds."""
    from rich.progress import Progress

    from ..report.comparison import write_comparison
    from ..training.evaluation import compare_on

    with Progress(transient=True) as bar:
        task = bar.add_task("starting", total=1.0)
        tell = lambda share, what: bar.update(task, completed=share, description=what)
        try:
            found = compare_on(subject, options.estimators, seconds, tell)
        except ValueError as error:
            raise UserError(str(error)) from None
    title = _title(subject)
    print(f"{title}, a batch of {subject.experiment.batch_size}:\n{found}")
    if options.out is not None:
        for path in write_comparison(found, options.out, title):
            print(f"wrote {path}")
