"""`hnca train`: an experiment, from settings to curves."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ..errors import UsageError
from ..experiments import (
    EXPERIMENTS,
    AbstractExperiment,
    Data,
    count_rows,
    experiment_class,
    run_name,
)
from ..imported import is_named_class
from ..settings import Flag
from ..words import counted
from .hardware import Hardware
from .reports import Reports
from .usage import about, menu, parse_given, program

if TYPE_CHECKING:
    from ..training import Devices, Reporter, RunDirectory

ABOUT = "Trains a network of stochastic units: one of the paper's experiments, or your own."
EPILOG = """\
or FILE.py:CLASS, an experiment of your own, as in examples/own_experiment.py. The file is imported:
name only one that you trust.

An experiment's settings are the paper's by default; --preset quick is a run of about a minute.
The same command again goes on where it was interrupted:
  hnca train bandit --preset quick --out runs/first"""
OWN = "; an experiment of your own is FILE.py:CLASS"  # hint at what else there is


def main(arguments: list[str]) -> None:
    """Trains, and says where the results are."""
    choices = {name: first_sentence(each) for name, each in EXPERIMENTS.items()}
    if arguments and is_named_class(arguments[0]):
        choices[arguments[0]] = ""
    task, rest = menu("hnca train", ABOUT, choices, EPILOG, arguments, OWN)
    if task:
        _train(task, rest)


def first_sentence(kind: type[AbstractExperiment]) -> str:
    """What an experiment is, in a line."""
    return (kind.__doc__ or "").strip().partition("\n")[0]


@dataclass(frozen=True)
class RunOptions:
    """Where runs find their data and leave their results; no matter to what comes out."""

    out: Annotated[Path | None, Flag(short="-o", metavar="DIRECTORY")] = None
    """Directory of the run; `runs/` and a name that tells its settings by default. With --seeds,
    the directory that holds those of the runs."""
    seeds: tuple[int, ...] | None = None
    """Several runs instead of one, side by side in one program, each with one of these for --seed
    and a directory of its own: the same as one by one, but for rounding."""
    data_dir: Annotated[Path | None, Flag(metavar="DIRECTORY")] = None
    """Where to look for the data set first."""
    preset: Annotated[str | None, Flag(metavar="NAME")] = None
    """Other defaults of the settings: paper, quick for a run of about a minute, or best (vae only)
    for the paper's bounds of 1, 2 and 3 --layers in a tenth of its updates, at thirty times its
    learning rate."""

    def runs(self, experiment: AbstractExperiment) -> dict[Path, AbstractExperiment]:
        """What to run, by its directory."""
        usual = experiment.presets[self.preset] if self.preset else {}
        place = Path("runs")
        if self.seeds is None:
            return {self.out or place / run_name(experiment, usual, place): experiment}
        place = self.out or place
        seeded = [replace(experiment, seed=seed) for seed in self.seeds]
        return {place / run_name(each, usual, place): each for each in seeded}


def _train(task: str, arguments: list[str]) -> None:
    experiment, options, reports, hardware = parse_settings(task, arguments)
    experiment.check()
    runs = options.runs(experiment)
    devices = hardware.claim()
    from ..training import hosts, make_reporters

    reporters = make_reporters(reports.names)
    data = hosts.together(lambda: _data(runs.values(), options.data_dir))
    command = f"{program()} {shlex.join(['train', task, *arguments])}"
    run(runs, data, command, devices, reporters)


def _data(experiments: Any, directory: Path | None) -> Data:
    """The data of experiments that differ in their seed only: the same for all of them."""
    for each in experiments:
        each.check()
    first, *others = experiments
    data = first.data(directory, print)
    if others and others[-1].data(directory, print).fingerprint != data.fingerprint:
        raise UsageError("--seeds: their data is not the same; train them one by one, by --seed")
    return data


def parse_settings(
    task: str, arguments: list[str]
) -> tuple[AbstractExperiment, RunOptions, Reports, Hardware]:
    """An experiment's settings from the command line: its fields are the flags."""
    kind = experiment_class(task)
    settings, given, reports, hardware = parse_given(
        [kind, RunOptions, Reports, Hardware],
        f"hnca train {task}",
        arguments,
        about(kind),
        kind.presets,
        {"estimator": kind().estimators},
    )
    options = RunOptions(**given)
    defaults = preset_settings(kind, options.preset, task)
    _check_seeds(options.seeds, "seed" in settings)
    experiment = kind(**{**defaults, **settings})
    return experiment, options, Reports(**reports), Hardware(**hardware)


def preset_settings(
    kind: type[AbstractExperiment], preset: str | None, task: str
) -> Mapping[str, Any]:
    """The settings of a preset, which must be one that the experiment has; none without one."""
    if preset is None:
        return {}
    if preset not in kind.presets:
        known = ", ".join(kind.presets) or "no presets"
        raise UsageError(f"--preset '{preset}': {task} has {known}")
    return kind.presets[preset]


def _check_seeds(seeds: tuple[int, ...] | None, seed_is_given: bool) -> None:
    if seeds is None:
        return
    if seed_is_given:
        raise UsageError("give --seed or --seeds, not both")
    if len(set(seeds)) < len(seeds):
        raise UsageError("--seeds must be one or more numbers, each of them once")


def run(
    runs: Mapping[Path, AbstractExperiment],
    data: Data,
    command: str,
    devices: "Devices | None" = None,
    reporters: "Sequence[Reporter]" = (),
) -> None:
    """Trains with a progress bar, and says where the results are."""
    from ..training import (
        Interrupted,
        Run,
        RunDirectory,
        hosts,
        keep_compiled,
        leave,
        train_side_by_side,
    )
    from ..training.signals import listening
    from .progress import display

    keep_compiled()
    under_way = [Run(experiment, RunDirectory(out)) for out, experiment in runs.items()]
    tell = display(under_way[0].experiment)
    with listening(at_once=False) as request:  # until the last word is said
        try:
            with request.nothing_to_lose(), tell:
                rows = f"{count_rows(data.train):,} + {count_rows(data.test):,} examples"
                title = under_way[0].experiment.title
                for out in runs:
                    tell.say(f"{title} on {data.name} ({rows} from {data.source}), in {out}")
                summaries = train_side_by_side(under_way, data, tell, command, devices, reporters)
        except Interrupted as interrupted:
            tell.say(f"{_saved(interrupted.epochs)}. Go on with:\n  {command}")
            leave(interrupted.exit_code)
    for each, summary in zip(under_way, summaries, strict=True):
        if hosts.is_first():
            print(_results(each.directory, summary))


def _saved(epochs: int | None) -> str:
    if epochs is None:
        return "Stopped"
    return f"Saved after epoch {epochs}" if epochs else "Stopped before the first epoch was done"


def _results(directory: "RunDirectory", summary: dict[str, Any]) -> str:
    from .progress import clock

    final, epochs = summary["final"], counted(summary["epochs"], "epoch")
    facts = [f"{k} {v:.4g}" for k, v in final.items() if k.startswith(("train_", "test_"))]
    return (
        f"{epochs} in {clock(summary['seconds'])}: {', '.join(facts)}\n"
        f"curves      {directory.curves}\ncheckpoint  {directory.checkpoints}"
    )
