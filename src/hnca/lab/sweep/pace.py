"""How long it will take, by what was measured: in runs that are there, or in a few steps."""

import math
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

from ..errors import first_line
from ..experiments import AbstractExperiment
from .engines import AbstractEngine
from .runs import Run
from .worker import Measurement, measure

PROGRAMS = 8  # measured at most; the others are taken to be like them


def program(experiment: AbstractExperiment) -> AbstractExperiment:
    """What runs have in common that differ by their seeds and epochs only."""
    return replace(experiment, seed=0, epochs=1)


class Pace:
    """Seconds of an epoch of each program: as measured, or else like others of its task."""

    def __init__(self) -> None:
        self._epochs: dict[AbstractExperiment, float] = {}
        self._starts: list[float] = []

    def learn(self, run: Run, entries: Sequence[dict[str, Any]]) -> None:
        """From the latest epochs of a run."""
        if entries:
            self._epochs[program(run.experiment)] = mean(entry["seconds"] for entry in entries)

    def put(self, experiment: AbstractExperiment, measured: Measurement) -> None:
        """From a few measured steps."""
        self._epochs[program(experiment)] = measured.epoch
        self._starts.append(measured.start)

    def epoch(self, experiment: AbstractExperiment) -> float | None:
        """None if nothing has been measured yet."""
        known = self._epochs
        if (same := program(experiment)) in known:
            return known[same]
        alike = [seconds for each, seconds in known.items() if each.name == experiment.name]
        return mean(alike or known.values()) if known else None

    def unknown(self, experiments: Iterable[AbstractExperiment]) -> list[AbstractExperiment]:
        """The programs among these that were not measured."""
        programs = dict.fromkeys(map(program, experiments))
        return [each for each in programs if each not in self._epochs]

    def total(self, left: Sequence[tuple[Run, int]], workers: int) -> float | None:
        """Seconds for runs with so many epochs left each, shared out evenly; None if nothing has
        been measured."""
        if left and not self._epochs:
            return None
        start = mean(self._starts) if self._starts else 0.0
        costs = [start + epochs * (self.epoch(run.experiment) or 0.0) for run, epochs in left]
        return max(sum(costs) / workers, max(costs, default=0.0))


def measure_programs(
    pace: Pace,
    experiments: Sequence[AbstractExperiment],
    engine: AbstractEngine,
    data_dir: Path | None,
    tell: Callable[[str], None],
) -> None:
    """Measures some programs of those that are unknown, on the workers that will train them."""
    unknown = pace.unknown(experiments)
    chosen = unknown[:: max(1, math.ceil(len(unknown) / PROGRAMS))]
    waiting, running = list(chosen), {}
    while waiting or running:
        while waiting and len(running) < engine.workers:
            experiment = waiting.pop(0)
            running[engine.submit(measure, experiment, data_dir)] = experiment
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            experiment = running.pop(future)
            done = len(chosen) - len(waiting) - len(running)
            if error := future.exception():
                tell(f"{experiment.title} cannot be measured: {first_line(error)}")
            else:
                pace.put(experiment, future.result())
                tell(f"measured {done} of {len(chosen)} programs: {experiment.title}")
