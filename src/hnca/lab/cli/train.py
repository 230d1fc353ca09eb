"""`hnca train`: an experiment, from settings to curves."""

import shlex
from argparse import ArgumentParser
from collections.abc import Mapping
from dataclasses import dataclass, field, make_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from ..data import Dataset
from ..experiments import EXPERIMENTS, AbstractExperiment, run_name
from .hardware import Hardware
from .usage import UsageError, menu, parse, program

if TYPE_CHECKING:
    from ..training import Devices, RunDirectory

EPILOG = """\
An experiment's settings are the paper's by default; --preset quick is a run of about a minute.
The same command again goes on where it was interrupted:
  hnca train bandit --preset quick --out runs/first"""


def main(arguments: list[str]) -> None:
    """Trains, and says where the results are."""
    about = "Trains a network of stochastic units."
    summaries = {name: _summary(each) for name, each in EXPERIMENTS.items()}
    name, rest = menu("hnca train", about, summaries, EPILOG, arguments)
    if name:
        _train(EXPERIMENTS[name], rest)


def _summary(experiment: type[AbstractExperiment]) -> str:
    return (experiment.__doc__ or "").splitlines()[0]


@dataclass(frozen=True)
class Place:
    """Where runs find their data and leave their results; no matter to what comes out."""

    out: Path | None = None
    """Directory of the run; `runs/` and a name that tells its settings by default. With --seeds,
    the directory that holds those of the runs."""
    seeds: tuple[int, ...] | None = None
    """Several runs instead of one, side by side in one program, each with one of these for --seed
    and a directory of its own: the same as one by one, but for rounding."""
    data_dir: Path | None = None
    """Where to look for the data set first."""
    preset: Literal["paper", "quick"] = "paper"
    """Defaults of all settings: the paper's, or those of a run of about a minute."""

    def runs(self, experiment: AbstractExperiment) -> dict[Path, AbstractExperiment]:
        """What to run, by its directory."""
        if self.seeds is None:
            return {self.out or Path("runs") / self._name(experiment): experiment}
        seeded = [replace(experiment, seed=seed) for seed in self.seeds]
        return {(self.out or Path("runs")) / self._name(each): each for each in seeded}

    def _name(self, experiment: AbstractExperiment) -> str:
        return run_name(experiment, vars(experiment.quick()) if self.preset == "quick" else {})


def _train(kind: type[AbstractExperiment], arguments: list[str]) -> None:
    experiment, place, hardware = parse_settings(kind, arguments)
    runs = place.runs(experiment)
    devices = hardware.claim()
    from ..data import load
    from ..training import hosts

    def prepare() -> Dataset:
        for each in runs.values():
            each.check()
        return load(experiment.dataset, place.data_dir, say=print)

    data = hosts.together(prepare)
    command = f"{program()} {shlex.join(['train', kind.name, *arguments])}"
    run(runs, data, command, devices)


def parse_settings(
    kind: type[AbstractExperiment], arguments: list[str]
) -> tuple[AbstractExperiment, Place, Hardware]:
    """An experiment's settings from the command line: its fields are the flags."""
    import tyro

    peek = ArgumentParser(add_help=False, allow_abbrev=False)
    peek.add_argument("--preset", nargs="?")
    peek.add_argument("--seed", nargs="?")
    peeked = peek.parse_known_args(arguments)[0]
    defaults = kind.quick() if peeked.preset == "quick" else kind()
    flat = tyro.conf.OmitArgPrefixes
    all_flags = make_dataclass(
        "Settings",
        [
            ("settings", Annotated[kind, flat], field(default=defaults)),
            ("place", Annotated[Place, flat], field(default=Place())),
            ("hardware", Annotated[Hardware, flat], field(default=Hardware())),
        ],
    )
    parsed = parse(all_flags, f"hnca train {kind.name}", arguments, description=kind.__doc__)
    _check_seeds(parsed.place.seeds, peeked.seed)
    return parsed.settings, parsed.place, parsed.hardware


def _check_seeds(seeds: tuple[int, ...] | None, seed: str | None) -> None:
    if seeds is None:
        return
    if seed is not None:
        raise UsageError("give --seed or --seeds, not both")
    if not seeds or len(set(seeds)) < len(seeds):
        raise UsageError("--seeds must be one or more numbers, each of them once")


def run(
    runs: Mapping[Path, AbstractExperiment],
    data: Dataset,
    command: str,
    devices: "Devices | None" = None,
) -> None:
    """Trains with a progress bar, and says where the results are."""
    from ..training import Interrupted, Run, RunDirectory, hosts, keep_compiled, train_side_by_side
    from .progress import reporter

    keep_compiled()
    under_way = [Run(experiment, RunDirectory(out)) for out, experiment in runs.items()]
    with reporter(under_way[0].experiment) as tell:
        images = f"{len(data.train_images):,} + {len(data.test_images):,} images"
        title = under_way[0].experiment.title
        for out in runs:
            tell.say(f"{title} on {data.name} ({images} from {data.source}), in {out}")
        try:
            summaries = train_side_by_side(under_way, data, tell, command, devices)
        except Interrupted as interrupted:
            done = interrupted.epochs
            saved = f"Saved after epoch {done}" if done else "Stopped before there was any to save"
            tell.say(f"{saved}. Go on with:\n  {command}")
            raise SystemExit(interrupted.exit_code) from None
    for each, summary in zip(under_way, summaries, strict=True):
        if hosts.is_first():
            print(_results(each.directory, summary))


def _results(directory: "RunDirectory", summary: dict[str, Any]) -> str:
    from .progress import clock

    final = summary["final"]
    facts = [f"{k} {v:.4g}" for k, v in final.items() if k.startswith(("train_", "test_"))]
    return (
        f"{summary['epochs']} epochs in {clock(summary['seconds'])}: {', '.join(facts)}\n"
        f"curves      {directory.curves}\ncheckpoint  {directory.checkpoints}"
    )
