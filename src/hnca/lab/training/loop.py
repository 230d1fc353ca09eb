"""Training, from where runs were left, or from the start, to the last epoch."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import replace
from functools import partial
from statistics import fmean
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from ..errors import UserError
from ..experiments import AbstractExperiment, Data
from . import hosts
from .devices import Devices
from .directory import RunDirectory
from .memory import check_memory
from .programs import Metrics, TrainState
from .reporting import Display, EpochMetrics, Reporter, Reports, Silent, reporting
from .run import Run, configuration, in_common
from .signals import Interrupted, StopRequest, listening
from .trainer import Trainer


def train(
    experiment: AbstractExperiment,
    data: Data,
    directory: RunDirectory,
    display: Display | None = None,
    command: str | None = None,
    devices: Devices | None = None,
    reporters: Sequence[Reporter] = (),
) -> dict[str, Any]:
    """Runs the experiment in a directory, from its last checkpoint if there is one, and returns
    the summary. Whenever it is interrupted, the same call goes on, and ends in the same bits."""
    runs = [Run(experiment, directory)]
    [summary] = train_side_by_side(runs, data, display, command, devices, reporters)
    return summary


def train_side_by_side(
    runs: Sequence[Run],
    data: Data,
    display: Display | None = None,
    command: str | None = None,
    devices: Devices | None = None,
    reporters: Sequence[Reporter] = (),
) -> list[dict[str, Any]]:
    """The same for runs that differ in their seed alone, in one program. Each ends in what it
    would have ended in by itself, to rounding; those that are behind catch up first."""
    devices, display = devices or Devices(), display or Silent()
    configs = [configuration(run.experiment, data, command, devices) for run in runs]
    hosts.agree([in_common(config) for config in configs])  # so that what follows fails in all
    _check(runs, data)
    trainer = Trainer(runs[0].experiment, data, devices)  # what it refuses leaves no directory
    with ExitStack() as held, listening() as request:
        for run in runs:
            hosts.from_first(lambda run=run: held.enter_context(run.directory.lock()))
        for run, config in zip(runs, configs, strict=True):
            run.open(config, trainer.start(run.experiment.seed), trainer.epochs)
        reports = held.enter_context(reporting(reporters, runs, data))
        try:
            for group, until in _stages(runs, trainer.epochs):
                _advance(trainer, group, until, (display, reports), request)
        except Interrupted as interrupted:
            interrupted.epochs = min(run.done for run in runs)
            with suppress(Interrupted):  # asked again, it leaves the curves as they are
                for run in runs:
                    run.draw()
            raise
        return [_conclude(trainer, run, reports) for run in runs]


def _check(runs: Sequence[Run], data: Data) -> None:
    for run in runs:
        run.experiment.check()
        if replace(run.experiment, seed=0) != replace(runs[0].experiment, seed=0):
            raise ValueError("runs side by side may differ in their seed only")
    first = runs[0].experiment
    check_memory(lambda: first.graph(data, jax.random.key(0)), first.batch_size, len(runs))


def _stages(runs: Sequence[Run], epochs: int) -> Iterator[tuple[list[Run], int]]:
    """Who is next to go on, and up to which epoch: those furthest behind, until they meet the
    next, and with them from there on."""
    while (least := min(run.done for run in runs)) < epochs:
        group = [run for run in runs if run.done == least]
        ahead = [run.done for run in runs if run.done > least]
        yield group, min([*ahead, epochs])


def _advance(
    trainer: Trainer,
    group: list[Run],
    until: int,
    told: tuple[Display, Reports],
    request: StopRequest,
) -> None:
    """Trains runs that have as many epochs behind them."""
    done, (display, reports) = group[0].done, told
    _prepare(trainer, group, done, display, request)
    wait = partial(_wait, tell=lambda: request.answer(display.say))
    for epoch in range(done + 1, until + 1):
        request.signum = hosts.maximum(request.signum or 0) or None  # one process stops them all
        request.check()
        entries = _epoch(trainer, group, epoch, wait)
        good = [_is_finite(run.state, entry) for run, entry in zip(group, entries, strict=True)]
        for run, entry, fine in zip(group, entries, good, strict=True):
            if fine:
                run.record(entry)
                reports.epoch(run, entry)
        if not all(good):
            raise _no_longer_finite(group, good, epoch)
        display.epoch(_overall(entries))


def _prepare(
    trainer: Trainer, group: list[Run], done: int, display: Display, request: StopRequest
) -> None:
    """Compiles, and tells the user why it takes a while. Meanwhile there is nothing to save, so
    that one who asks to stop is obeyed at once; among several processes, all have to be asked."""
    if done:
        seeds = ", ".join(str(run.experiment.seed) for run in group)
        who = f"seeds {seeds}: " if len(group) > 1 else ""
        display.say(f"{who}going on after epoch {done}")
    display.say("compiling, which takes some seconds the first time")
    alone = hosts.count() == 1
    with request.nothing_to_lose() if alone else nullcontext():
        tell = lambda: request.answer(display.say)
        trainer.compile([run.state for run in group], tell)
    display.begin(trainer.epochs, done, trainer.steps * len(group))


def _epoch(
    trainer: Trainer, group: list[Run], epoch: int, wait: Callable[[PyTree], None]
) -> list[EpochMetrics]:
    """One epoch of the runs, and its test where one is due. Each has its share of the time."""
    began = time.perf_counter()
    seeds = [run.experiment.seed for run in group]
    results = trainer.train([run.state for run in group], seeds, epoch)
    wait([metrics for _, metrics in results])
    entries: list[EpochMetrics] = []
    for run, (state, metrics) in zip(group, results, strict=True):
        run.state = state
        entry = {"epoch": epoch, "step": int(state.step), "seconds": 0.0}
        entries.append(entry | trainer.summarise(metrics))
    if trainer.test_is_due(epoch):
        tested = trainer.test([run.state.graph for run in group], seeds, epoch)
        wait(tested)
        entries = [entry | _floats(test) for entry, test in zip(entries, tested, strict=True)]
    share = (time.perf_counter() - began) / len(group)
    return [entry | {"seconds": share} for entry in entries]


def _wait(results: PyTree, tell: Callable[[], None]) -> None:
    """Until the device is done; unlike in JAX's own waiting, signals are heard meanwhile."""
    while not all(leaf.is_ready() for leaf in jax.tree.leaves(results)):
        tell()
        time.sleep(0.002)


def _floats(metrics: Metrics) -> dict[str, float]:
    return {name: float(value) for name, value in metrics.items()}


def _overall(entries: list[EpochMetrics]) -> EpochMetrics:
    """Of runs side by side, the means of what is measured, and the time of all of them."""
    first, *_ = entries
    counted = ("epoch", "step")
    means = {name: fmean(entry[name] for entry in entries) for name in first if name not in counted}
    return first | means | {"seconds": sum(entry["seconds"] for entry in entries)}


def _is_finite(state: TrainState, entry: EpochMetrics) -> bool:
    leaves = jax.tree.leaves(eqx.filter(state, eqx.is_inexact_array))
    finite = all(bool(jnp.isfinite(leaf).all()) for leaf in leaves)
    return finite and all(math.isfinite(value) for value in entry.values())


def _no_longer_finite(group: list[Run], good: list[bool], epoch: int) -> UserError:
    bad = [run.experiment.seed for run, fine in zip(group, good, strict=True) if not fine]
    several = len(group) > 1
    who = f"seed {', '.join(map(str, bad))}: " if several else ""
    way_out = ", or go on without it" if several else ""
    kept = " (the last good checkpoint is kept)" if epoch > 1 else ""
    return UserError(
        f"{who}parameters or metrics are no longer finite after epoch {epoch}: try a smaller "
        f"--learning-rate in another --out{kept}{way_out}"
    )


def _conclude(trainer: Trainer, run: Run, reports: Reports) -> dict[str, Any]:
    """The summary of a run that has all its epochs, written if it was not before."""
    summary = run.summary() or run.finish(_last_test(trainer, run))
    reports.end(run, summary)
    return summary


def _last_test(trainer: Trainer, run: Run) -> dict[str, float]:
    """What the summary says of the test images, if the last epoch's metrics do not."""
    if trainer.test_is_due(run.done):
        return {}
    [tested] = trainer.test([run.state.graph], [run.experiment.seed], run.done)
    return _floats(tested)
