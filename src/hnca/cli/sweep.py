"""`hnca sweep`: many runs, from a plan to the command that reports on them."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from ..data import load
from ..sweep import AbstractEngine, Run, Scheduler, built_in, make_engine, read_plan
from ..sweep.pace import Pace, measure_programs
from ..sweep.progress import progress, recent
from ..sweep.runs import narrowed, runs_of
from ..training.signals import Interrupted, listening
from .progress import clock
from .sweep_table import Lines, table
from .usage import parse, program

ABOUT = """\
Runs every experiment of a plan, several at a time. The same command again does only what is
missing, and goes on where a run was interrupted.

Plans:
{plans}

or a TOML file of your own, as in:
  [[grid]]
  task = "bandit"
  layers = [1, 2]                       # a list is multiplied out,
  estimator = ["hnca", "reinforce"]     # and so is this one
  learning_rate = 1e-3                  # one value is for all
  seeds = [0, 1, 2]                     # 2 x 2 x 3 runs

First thing to try:
  hnca sweep quick --dry-run
  hnca sweep quick"""


@dataclass(frozen=True)
class Sweep:
    """A plan, what of it is wanted, and where it is run."""

    plan: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="PLAN")]
    """Name of a plan, or a TOML file."""
    out: Path | None = None
    """Directory with a directory for each run; `runs/` and the name of the plan by default. On a
    cluster it has to be on a file system that all machines share."""
    dry_run: tyro.conf.FlagCreatePairsOff[bool] = False
    """List the runs, how far each is, and how long the rest would take, by a few measured steps."""
    epochs: int | None = None
    """Train every run for so many epochs instead of the plan's."""
    seeds: tuple[int, ...] = ()
    """Only the runs with these seeds."""
    only: tuple[str, ...] = ()
    """Only the runs with one of these in their names, as in `--only 'vae-3*hnca' conv`."""
    engine: Literal["local", "ray", "dask"] = "local"
    """Processes on this machine, Ray or Dask."""
    workers: int | None = None
    """Runs at a time; by default, one for each core. Each gets one core."""
    address: str | None = None
    """Of a Ray or Dask cluster that is there already; by default, one is started here."""
    data_dir: Path | None = None
    """Where to look for the data sets first."""


def main(arguments: list[str]) -> None:
    """Runs a plan; exits with 1 if a run has failed."""
    plans = "\n".join(f"  {name:16}{about}" for name, about in built_in().items())
    asked = parse(
        Sweep, "hnca sweep", arguments or ["--help"], description=ABOUT.format(plans=plans)
    )
    plan = read_plan(asked.plan)
    runs = narrowed(runs_of(plan.experiments, asked.epochs), asked.seeds, asked.only)
    out = asked.out or Path("runs") / plan.name
    _load_data(runs, asked.data_dir)
    engine = make_engine(asked.engine, asked.workers, asked.address)
    command = f"{program()} {shlex.join(['sweep', *arguments])}"
    if asked.dry_run:
        _list(runs, out, engine, asked.data_dir)
    else:
        _sweep(runs, out, engine, asked.data_dir, command)


def _load_data(runs: list[Run], data_dir: Path | None) -> None:
    """Once, so that what has to be fetched is there before the workers need it."""
    for name in dict.fromkeys(run.experiment.dataset for run in runs):
        load(name, data_dir, say=print)


def _list(runs: list[Run], out: Path, engine: AbstractEngine, data_dir: Path | None) -> None:
    """A line for each run, then the time that the rest will take."""
    found = [(run, progress(run, out)) for run in runs]
    for run, there in found:
        print(f"{run.name:50} {there.words(run)}", flush=True)
    left = [(run, run.experiment.epochs - there.epochs) for run, there in found if there.open]
    pace, tell = Pace(), lambda line: print(line, flush=True)
    for run, _ in found:
        pace.learn(run, recent(run, out))
    try:
        measure_programs(pace, [run.experiment for run, _ in left], engine, data_dir, tell)
        workers = engine.workers
    finally:
        engine.close(at_once=True)
    took = f"about {clock(pace.total(left, workers))} on {workers} {engine.name} workers"
    print(f"{len(runs)} runs in {out}, {len(left)} of them to do: {took}")


def _sweep(
    runs: list[Run], out: Path, engine: AbstractEngine, data_dir: Path | None, command: str
) -> None:
    """Does what is missing, and says what came of it."""
    todo = [run for run in runs if progress(run, out).state != "done"]
    todo.sort(key=lambda run: run.experiment.seed)  # all programs are compiled by the first seeds
    out.mkdir(parents=True, exist_ok=True)
    scheduler = Scheduler(todo, out, engine, data_dir, command)
    with table(scheduler, out, len(runs) - len(todo)) as show:
        show.say(f"{len(runs)} runs, {len(todo)} of them to do, in {out}")
        try:
            _carry_out(scheduler, engine, show)
        except Interrupted as interrupted:
            done = len(runs) - len(todo) + len(scheduler.done)
            show.say(f"Stopped with {done} of {len(runs)} runs done. Go on with:\n  {command}")
            raise SystemExit(interrupted.exit_code) from None
    for run, message in scheduler.failed.items():
        print(f"failed: {run.name}: {message}")
    done = len(runs) - len(scheduler.failed)
    print(f"{done} of {len(runs)} runs are done. What came of them:")
    print(f"  {program()} report {shlex.quote(str(out))} -o {shlex.quote(str(out / 'report'))}")
    if scheduler.failed:
        raise SystemExit(1)


def _carry_out(scheduler: Scheduler, engine: AbstractEngine, show: Lines) -> None:
    """Until all is done, or, asked to stop, until the workers have finished their epochs."""
    well = False
    try:
        with listening() as request:
            while not scheduler.over:
                show.update(scheduler.turn(0.5))
                if request.signum is not None and not scheduler.stopping:
                    scheduler.stop()
                    request.answer(show.say)
            request.check()
            well = True
    finally:
        engine.close(at_once=not well)
        scheduler.close()
