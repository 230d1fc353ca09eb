"""`hnca sweep`: many runs, from a plan to the command that reports on them."""

import shlex
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from ..errors import UsageError, UserError
from ..settings import Flag
from ..sweep import (
    ENGINES,
    AbstractEngine,
    Pace,
    PlannedRun,
    RunStatus,
    Scheduler,
    announced,
    built_in,
    check_engine,
    fetch_data,
    latest_epochs,
    make_engine,
    measure_programs,
    narrowed,
    read_plan,
    run_status,
    runs_of,
)
from ..training import make_reporters
from ..training.signals import Interrupted, StopRequest, listening
from ..training.tensorboard import has_events
from ..words import counted
from .progress import clock
from .reports import Reports
from .sweep_table import Show, display
from .usage import parse_given, program

if TYPE_CHECKING:
    EngineName = str
else:
    EngineName = Literal[tuple(ENGINES)]

ABOUT = """\
Runs every experiment of a plan, several at a time. The same command again does only what is
missing, and goes on where a run was interrupted.

Plans:
{plans}

or a TOML file of your own, as in:
  [settings]                            # what all grids share, if anything; directories of
  dataset = "glyphs"                    # runs do not tell it

  [[grid]]                              # one or more
  task = "bandit"
  layers = [1, 2]                       # a list is multiplied out,
  estimator = ["hnca", "reinforce"]     # and so is this one
  learning_rate = 1e-3                  # one value is for all
  seeds = [0, 1, 2]                     # 2 x 2 x 3 runs

Experiments of your own are tasks as well: task = "my_experiment.py:MyExperiment" is the class of
that name in a file beside the plan.

Engines:
{engines}

First thing to try:
  hnca sweep quick --dry-run
  hnca sweep quick"""

LISTED = 200  # runs that a dry run has a line for


@dataclass(frozen=True)
class Sweep:
    """A plan, what of it is wanted, and where it is run."""

    plan: Annotated[str, Flag(positional=True, metavar="PLAN")]
    """Name of a plan, or a TOML file."""
    out: Annotated[Path | None, Flag(short="-o", metavar="DIRECTORY")] = None
    """Directory with a directory for each run; `runs/` and the name of the plan by default. On a
    cluster it has to be on a file system that all machines share."""
    dry_run: bool = False
    """List the runs, how far each is, and how long the rest would take, by a few measured steps."""
    epochs: int | None = None
    """Train every run for so many epochs instead of the plan's."""
    seeds: tuple[int, ...] = ()
    """Only the runs with these seeds."""
    only: tuple[str, ...] = ()
    """Only the runs with one of these in their names, as in `--only 'vae-3*hnca' conv`."""
    engine: EngineName = "local"
    """Where the runs are done: see above."""
    workers: int | None = None
    """Runs at a time; by default, one for each core. Each uses one core: with fewer, or fewer runs
    to do, the other cores stay idle."""
    address: str | None = None
    """Of a Ray or Dask cluster that is there already; by default, one is started here."""
    data_dir: Annotated[Path | None, Flag(metavar="DIRECTORY")] = None
    """Where to look for the data sets first."""


def main(arguments: list[str]) -> None:
    """Runs a plan; exits with 1 if a run has failed."""
    listed = lambda about: "\n".join(f"  {name:16}{words}" for name, words in about.items())
    engines = {name: engine.about for name, engine in ENGINES.items()}
    about = ABOUT.format(plans=listed(built_in()), engines=listed(engines))
    kinds = [Sweep, Reports]
    given, told = parse_given(kinds, "hnca sweep", arguments or ["--help"], about)
    asked, reports = Sweep(**given), Reports(**told)
    plan = read_plan(asked.plan, say)
    out = asked.out or _usual_out(asked.plan, plan.name)
    named = runs_of(plan.experiments, asked.epochs, plan.usual, say, out)
    wanted = narrowed(named, asked.seeds, asked.only)
    runs = [run._replace(experiment=run.experiment.located()) for run in wanted]
    place = Workplace(
        out,
        asked.data_dir and asked.data_dir.expanduser().absolute(),
        (asked.engine, asked.workers, asked.address),
        reports.names,
    )
    make_reporters(reports.names)  # what cannot be made is refused now, not by every worker
    try:
        check_engine(*place.engine)
    except UserError as error:  # all of it comes from the command line
        raise UsageError(str(error)) from None
    if asked.dry_run:
        _list(runs, place)
    else:
        _sweep(runs, place, f"{program()} {shlex.join(['sweep', *arguments])}")


def say(line: str) -> None:
    """Tells the user something, now."""
    print(line, flush=True)


def _usual_out(asked: str, name: str) -> Path:
    """Where the runs of a plan go. A plan of one's own keeps out of the built-in ones' way."""
    out = Path("runs") / name
    if name in built_in() and asked != name:
        raise UserError(
            f"{asked} would share {out} with the plan '{name}' that comes with hnca: "
            "rename it, or choose another --out"
        )
    return out


class Workplace(NamedTuple):
    """Where results and data are, and what an engine is made of."""

    out: Path
    data_dir: Path | None
    engine: tuple[str, int | None, str | None]
    reporters: tuple[str, ...] = ()

    def start(self, runs: list[PlannedRun]) -> AbstractEngine:
        """An engine for these runs, once what has to be fetched for them is there."""
        fetch_data([run.experiment for run in runs], self.data_dir, say)
        return make_engine(*self.engine)

    def look(self, runs: list[PlannedRun]) -> list[tuple[PlannedRun, RunStatus]]:
        """How far these runs are."""
        looked = announced(runs, len(runs), "looked for runs", say)
        return [(run, run_status(run, self.out)) for run in looked]

    def lacks(self, run: PlannedRun) -> bool:
        """Whether a run that is done has nothing for TensorBoard yet, though it should."""
        return "tensorboard" in self.reporters and not has_events(self.out / run.name)


def _list(runs: list[PlannedRun], place: Workplace) -> None:
    """A line for each run, then the time that the rest will take. Exits with 1 if a run cannot be
    done."""
    found = place.look(runs)
    shown = found[:LISTED]
    width = max(len(run.name) for run, _ in shown)
    for run, there in shown:
        print(f"{run.name:{width}}  {there.words(run)}")
    if len(found) > LISTED:
        states = Counter(there.state for _, there in found[LISTED:])
        rest = ", ".join(f"{count:,} {state}" for state, count in states.items())
        print(f"... and {len(found) - LISTED:,} more: {rest}")
    left = [
        (run, max(0, run.experiment.epochs - there.epochs)) for run, there in found if there.open
    ]
    say(f"{counted(len(runs), 'run')} in {place.out}, {len(left):,} to do")
    if left:
        say(f"that takes {_estimate(runs, left, place)}")
    if unusable := [there.why for _, there in found if there.state == "unusable"]:
        raise UserError(
            f"{len(unusable):,} of {counted(len(runs), 'run')} cannot be done: {unusable[0]}"
        )


def _estimate(runs: list[PlannedRun], left: list[tuple[PlannedRun, int]], place: Workplace) -> str:
    """How long it takes to do what is left, by all runs that are there and a few steps."""
    pace = Pace()
    for run in runs:
        pace.learn(run, latest_epochs(run, place.out))
    todo = [run for run, _ in left]
    engine = place.start(todo)
    try:
        measure_programs(pace, [run.experiment for run in todo], engine, place.data_dir, say)
        seconds, workers = pace.total(left, engine.workers), engine.workers
    finally:
        engine.close(at_once=True)
    took = "who knows how long" if seconds is None else f"about {clock(seconds)}"
    return f"{took} on {counted(workers, f'{place.engine[0]} worker')}"


def _sweep(runs: list[PlannedRun], place: Workplace, command: str) -> None:
    """Does what is missing, and says what came of it."""
    out = place.out
    found = place.look(runs)
    todo = [run for run, there in found if there.state != "done" or place.lacks(run)]
    todo.sort(key=lambda run: run.experiment.seed)  # all programs are compiled by the first seeds
    say(f"{counted(len(runs), 'run')}, {len(todo):,} to do, in {out}")
    failed = carry_out(todo, place, len(runs) - len(todo), command) if todo else {}
    for run, message in failed.items():
        print(f"failed: {run.name}: {message}")
    print(f"{len(runs) - len(failed):,} of {counted(len(runs), 'run')} done. What came of them:")
    print(f"  {program()} report {shlex.quote(str(out))} -o {shlex.quote(str(out / 'report'))}")
    if failed:
        raise SystemExit(1)


def carry_out(
    todo: list[PlannedRun],
    place: Workplace,
    done_before: int,
    command: str,
    show: Callable[[Scheduler, Path, int], Show] = display,
) -> dict[PlannedRun, str]:
    """Trains, and returns what became of those that failed. `show` makes what the user sees."""
    done = done_before
    try:
        engine = place.start(todo)
        place.out.mkdir(parents=True, exist_ok=True)
        scheduler = Scheduler(todo, place.out, engine, place.data_dir, command, place.reporters)
        with listening(at_once=False) as request, show(scheduler, place.out, done) as shown:
            try:
                _attend(scheduler, engine, shown, request)
            finally:
                done += len(scheduler.done)
    except (Interrupted, KeyboardInterrupt) as reason:
        finished = f"{done:,} of {counted(done_before + len(todo), 'run')}"
        say(f"Stopped with {finished} done. Go on with:\n  {command}")
        code = reason.exit_code if isinstance(reason, Interrupted) else 130
        raise SystemExit(code) from None
    return scheduler.failed


def _attend(scheduler: Scheduler, engine: AbstractEngine, show: Show, request: StopRequest) -> None:
    """Until all is done; or, asked to stop, until the workers have finished their epochs; or, asked
    twice, until now. What ends the workers is not interrupted, however often one asks."""
    well = False
    try:
        while not scheduler.over and not request.urgent:
            show.update(scheduler.turn(0.5))
            if request.signum is not None and not scheduler.stopping:
                scheduler.stop()
                request.answer(show.say)
        request.check()
        well = True
    finally:
        engine.close(at_once=not well)
        scheduler.close()
