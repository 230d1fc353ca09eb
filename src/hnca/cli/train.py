"""`hnca train`: an experiment, from settings to curves."""

import shlex
from argparse import ArgumentParser
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from ..data import Dataset
from ..experiments import EXPERIMENTS, AbstractExperiment
from .usage import menu, parse, program

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
    """Where a run finds its data and leaves its results; no matter to what comes out."""

    out: Path | None = None
    """Directory of the run; `runs/` and a name made of the settings by default."""
    data_dir: Path | None = None
    """Where to look for the data set first."""
    preset: Literal["paper", "quick"] = "paper"
    """Defaults of all settings: the paper's, or those of a run of about a minute."""


def _train(kind: type[AbstractExperiment], arguments: list[str]) -> None:
    experiment, place = parse_settings(kind, arguments)
    experiment.check()
    data_name = Path(experiment.dataset).name  # which may be a directory
    out = place.out or Path("runs") / f"{experiment.title}-{data_name}-{experiment.seed}"
    from ..data import load

    data = load(experiment.dataset, place.data_dir, say=print)
    command = f"{program()} {shlex.join(['train', kind.name, *arguments])}"
    run(experiment, data, out, command)


def parse_settings(
    kind: type[AbstractExperiment], arguments: list[str]
) -> tuple[AbstractExperiment, Place]:
    """An experiment's settings from the command line: its fields are the flags."""
    import tyro

    peek = ArgumentParser(add_help=False, allow_abbrev=False)
    peek.add_argument("--preset", nargs="?")
    preset = peek.parse_known_args(arguments)[0].preset
    defaults = kind.quick() if preset == "quick" else kind()
    flat = tyro.conf.OmitArgPrefixes
    both = make_dataclass(
        "Settings",
        [
            ("settings", Annotated[kind, flat], field(default=defaults)),
            ("place", Annotated[Place, flat], field(default=Place())),
        ],
    )
    parsed = parse(both, f"hnca train {kind.name}", arguments, description=kind.__doc__)
    return parsed.settings, parsed.place


def run(experiment: AbstractExperiment, data: Dataset, out: Path, command: str) -> dict[str, Any]:
    """Trains with a progress bar, and says where the results are."""
    from ..training import Interrupted, RunDirectory, train
    from .progress import clock, reporter

    keep_compiled()
    directory = RunDirectory(out)
    with reporter(experiment) as tell:
        images = f"{len(data.train_images):,} + {len(data.test_images):,} images"
        tell.say(f"{experiment.title} on {data.name} ({images} from {data.source}), in {out}")
        try:
            summary = train(experiment, data, directory, tell, command)
        except Interrupted as interrupted:
            done = interrupted.epochs
            saved = f"Saved after epoch {done}" if done else "Stopped before there was any to save"
            tell.say(f"{saved}. Go on with:\n  {command}")
            raise SystemExit(interrupted.exit_code) from None
    final = summary["final"]
    facts = [f"{k} {v:.4g}" for k, v in final.items() if k.startswith(("train_", "test_"))]
    print(f"{summary['epochs']} epochs in {clock(summary['seconds'])}: {', '.join(facts)}")
    print(f"curves      {directory.curves}\ncheckpoint  {directory.checkpoints}")
    return summary


def keep_compiled() -> None:
    """Programs are compiled once on a machine, then read from the cache."""
    import jax

    from ..data.cache import cache_directory

    if jax.config.jax_compilation_cache_dir is None:  # pyright: ignore[reportAttributeAccessIssue]
        jax.config.update("jax_compilation_cache_dir", str(cache_directory() / "compiled"))
