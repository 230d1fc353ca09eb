"""Ratios of running times on a noisy machine: alternating runs in one process, medians."""

import statistics
import time
from collections.abc import Callable, Mapping


class Timings:
    """Milliseconds per step of each contender, by round."""

    def __init__(self, rounds: dict[str, list[float]]):
        self.rounds = rounds

    def median(self, name: str) -> float:
        """Median over the rounds."""
        return statistics.median(self.rounds[name])

    def ratio(self, name: str, to: str) -> float:
        """Median of the ratios within a round: what slows a whole round cancels."""
        pairs = zip(self.rounds[name], self.rounds[to], strict=True)
        return statistics.median(mine / other for mine, other in pairs)


def alternate(
    contenders: Mapping[str, Callable[[], None]], rounds: int, steps: int, warmup: int = 2
) -> Timings:
    """Runs all contenders in turn, again and again. Each call does `steps` steps and waits."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(warmup + rounds):
        for name, run in contenders.items():
            began = time.perf_counter()
            run()
            if number >= warmup:
                times[name].append((time.perf_counter() - began) * 1e3 / steps)
    return Timings(times)
