"""How long a training step takes, beside backpropagation and beside textbook tables.

    make bench

prints the ratios, and writes benchmarks/results.json and two plots. All figures come from
alternating runs in one process: only ratios mean anything on a noisy machine. Adam is included in
every step; the measurement of gradient variance is not, but for the column that says what it adds.
"""

import argparse
import json
import math
import os
import platform
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
import optax
from backpropagation import bandit_loss, bandit_parameters, vae_loss, vae_parameters
from backpropagation import make_epoch as make_backpropagation_epoch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from textbook import HNCAWith, bernoulli_flip
from timing import Timings, alternate

import hnca
from hnca.estimators import REGISTRY, make_estimator
from hnca.kernels import bernoulli_flip as fast_bernoulli_flip
from hnca.kernels import native
from hnca.lab.training import TrainState, make_epoch
from hnca.models import bandit_policy, hierarchical_vae

matplotlib.use("Agg")
import matplotlib.pyplot as plt

HERE = Path(__file__).parent
BATCH, PIXELS, UNITS, ACTIONS = 50, 784, 200, 10
STEPS = 20  # in one compiled program
KEY = jax.random.key(0)
LEARNING_RATE = 1e-4
OPTIMIZER = hnca.maximize(optax.adam(LEARNING_RATE))
YARDSTICK = "backpropagation"
BRUTE_FORCE = "local-expectation"  # too slow to alternate with the rest
ESTIMATORS = {name: make_estimator(name) for name in REGISTRY if name != BRUTE_FORCE}
ONE_SAMPLE = {name: each for name, each in ESTIMATORS.items() if not each.needs_objective}
BY_DEPTH = {name: ESTIMATORS[name] for name in ("reinforce", "hnca", "loo", "disarm")}
IN_BARS = {name: ESTIMATORS[name] for name in ("hnca", "hnca+baseline", "disarm")}
BARS = {  # the most that each ratio may be
    "vae-1: hnca / backpropagation": 1.35,
    "vae-2: hnca / backpropagation": 1.6,
    "vae-3: hnca / backpropagation": 1.6,
    "bandit-3: hnca / backpropagation": 1.5,
    "vae-3: hnca+baseline / disarm": 1.15,
    f"{PIXELS}x{UNITS}: table / forward product": 2.5,
    f"{PIXELS}x{UNITS}: table and entropy / forward product": 6.0,
    "vae-1: hnca / textbook tables": 0.2,
    "exponent of hnca in depth, 2 to 8 layers": 1.15,
}

Run = Callable[[], None]


def inputs(steps: int = STEPS) -> tuple[jax.Array, jax.Array]:
    """Random images and labels for every step."""
    x = jax.random.bernoulli(jax.random.key(1), 0.2, (steps, BATCH, PIXELS))
    y = jax.random.randint(jax.random.key(2), (steps, BATCH), 0, ACTIONS)
    return x.astype(jnp.float32), y


def repeated(epoch, state, entries) -> Run:
    """Runs an epoch after another, each from where the last one ended."""
    states = [state]

    def run() -> None:
        states[0], metrics = epoch(states[0], entries)
        jax.block_until_ready(metrics)

    return run


def backpropagation(parameters, loss, entries) -> Run:
    """The yardstick."""
    start, epoch = make_backpropagation_epoch(loss, LEARNING_RATE)
    return repeated(epoch, start(parameters, KEY), entries)


def training(graph: hnca.Graph, estimator, task, entries, with_variance: bool = False) -> Run:
    """The library's own epoch."""
    epoch = make_epoch(estimator, OPTIMIZER, task, with_variance=with_variance)
    return repeated(epoch, TrainState.start(graph, estimator, OPTIMIZER, KEY), entries)


def vae_contenders(
    units: Sequence[int], estimators, variance: bool = False, steps: int = STEPS
) -> dict[str, Run]:
    """Training runs of one VAE, by backpropagation and by each estimator."""
    graph, (x, _) = hierarchical_vae(PIXELS, units, key=KEY), inputs(steps)
    runs = {YARDSTICK: backpropagation(vae_parameters(graph), vae_loss, x)}
    task = lambda x: ({"x": x}, None)
    runs |= {name: training(graph, each, task, x) for name, each in estimators.items()}
    if variance:
        runs["hnca, variance measured"] = training(graph, hnca.HNCA(), task, x, with_variance=True)
    return runs


def bandit_contenders(units: Sequence[int], estimators, steps: int = STEPS) -> dict[str, Run]:
    """Training runs of one policy, by backpropagation and by each estimator."""
    graph, entries = bandit_policy(PIXELS, units, ACTIONS, key=KEY), inputs(steps)
    runs = {YARDSTICK: backpropagation(bandit_parameters(graph), bandit_loss, entries)}

    def task(entry):
        x, y = entry
        return {"x": x}, lambda sample: sample["action"] == y

    runs |= {name: training(graph, each, task, entries) for name, each in estimators.items()}
    measured = training(graph, hnca.HNCA(), task, entries, with_variance=True)
    return runs | {"hnca, variance measured": measured}


def kernel_contenders(outputs: int, units: int, steps: int) -> dict[str, Run]:
    """The tables of one layer alone, and its forward matrix product."""
    k1, k2, k3, k4 = jax.random.split(KEY, 4)
    logits = 2 * jax.random.normal(k1, (BATCH, outputs))
    fired = jax.random.bernoulli(k2, 0.5, (BATCH, outputs)).astype(jnp.float32)
    weight = jax.random.uniform(k3, (outputs, units), minval=-0.3, maxval=0.3)
    sign = 1 - 2.0 * jax.random.bernoulli(k4, 0.5, (BATCH, units))
    trained = jnp.where(jax.random.bernoulli(KEY, 0.07, weight.shape), 8.0, weight)
    plain, entropy = {"with_entropy": False}, {"with_entropy": True}
    kernels = {
        "forward product": (lambda logits, fired, w, s: s @ w.T, weight),
        "table": (partial(fast_bernoulli_flip, **plain), weight),
        "table and entropy": (partial(fast_bernoulli_flip, **entropy), weight),
        "table, 7% of weights large": (partial(fast_bernoulli_flip, **plain), trained),
        "textbook table": (partial(bernoulli_flip, **plain), weight),
        "textbook table and entropy": (partial(bernoulli_flip, **entropy), weight),
    }

    def looped(kernel, weight) -> Run:
        def step(weight, _):
            result = kernel(logits, fired, weight, sign)
            nudge = sum(leaf[0, 0] for leaf in jax.tree.leaves(result))
            return weight + 1e-20 * nudge, None  # so that each pass waits for the one before

        loop = jax.jit(lambda weight: jax.lax.scan(step, weight, None, length=steps)[0])
        return lambda: jax.block_until_ready(loop(weight))

    return {name: looped(*each) for name, each in kernels.items()}


def exponent(sizes: Sequence[int], times: Sequence[float]) -> float:
    """Slope of the line through the logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def step_table(title: str, timings: Timings) -> Table:
    """Step times of a network's contenders."""
    table = Table("method", "ms / step", f"/ {YARDSTICK}", title=title)
    for name in timings.rounds:
        ratio = timings.ratio(name, YARDSTICK)
        table.add_row(name, f"{timings.median(name):.2f}", f"{ratio:.2f}")
    return table


def plot(
    path: Path,
    sizes: Sequence[int],
    series: dict[str, list[float]],
    fits: dict[str, float],
    xlabel: str,
) -> None:
    """Milliseconds per step against size, both logarithmic, and the ratio to the yardstick."""
    figure, (absolute, relative) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    for name, times in series.items():
        absolute.loglog(sizes, times, "o-", label=f"{name} ({fits[name]:.2f})")
        ratios = [
            time / yardstick for time, yardstick in zip(times, series[YARDSTICK], strict=True)
        ]
        relative.plot(sizes, ratios, "o-", label=name)
    absolute.set_xticks(sizes, [str(size) for size in sizes])
    absolute.minorticks_off()
    ticks = [t for t in (1, 2, 5, 10, 20, 50, 100, 200) if _within(t, series)]
    absolute.set_yticks(ticks, [str(tick) for tick in ticks])
    absolute.set(xlabel=xlabel, ylabel="milliseconds per training step")
    relative.set(xlabel=xlabel, ylabel=f"times {YARDSTICK}", ylim=(0, None))
    absolute.legend(title="and the fitted exponent")
    relative.legend()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _within(tick: float, series: dict[str, list[float]]) -> bool:
    every = [time for times in series.values() for time in times]
    return min(every) / 2 <= tick <= max(every) * 2


def sweep(sizes: Sequence[int], units_of, estimators, rounds: int, label: str) -> dict[str, list]:
    """Step times over networks of growing size."""
    series: dict[str, list[float]] = {name: [] for name in (YARDSTICK, *estimators)}
    for size in track(sizes, description=label):
        timings = alternate(vae_contenders(units_of(size), estimators), rounds, STEPS)
        for name in series:
            series[name].append(timings.median(name))
    return series


class Report:
    """What was measured so far, printed as it comes."""

    def __init__(self, rounds: int, out: Path):
        self.rounds, self.out, self.console = rounds, out, Console()
        self.ratios: dict[str, float] = {}
        self.milliseconds: dict[str, dict[str, float]] = {}
        self.growth: dict[str, dict] = {}
        self.kernels: dict[str, str] = {}  # by the part that was measured with it

    def resume(self) -> None:
        """Keeps results that were written before."""
        record = json.loads((self.out / "results.json").read_text())
        self.ratios, self.growth = record["ratios"], record["growth"]
        self.milliseconds, self.kernels = record["milliseconds per step"], record["kernels"]

    def networks(self) -> None:
        """The paper's networks, by every method."""
        for depth in (1, 2, 3):
            units = [UNITS] * depth
            self._steps(f"vae-{depth}", vae_contenders(units, ESTIMATORS, variance=True))
            self._steps(f"bandit-{depth}", bandit_contenders(units, ONE_SAMPLE))

    def bars(self) -> None:
        """The methods of the bars again, among themselves: as in training, a method's arrays are
        still in the cache when its turn comes."""
        for depth in (1, 2, 3):
            timings = self._steps(f"vae-{depth}", vae_contenders([UNITS] * depth, IN_BARS))
            ratio = timings.ratio("hnca+baseline", "disarm")
            self.ratios[f"vae-{depth}: hnca+baseline / disarm"] = ratio
        self._steps("bandit-3", bandit_contenders([UNITS] * 3, {"hnca": ESTIMATORS["hnca"]}))

    def _steps(self, network: str, contenders: dict[str, Run]) -> Timings:
        timings = alternate(contenders, self.rounds, STEPS)
        self.console.print(step_table(f"{network}, batch {BATCH}", timings))
        times = {name: timings.median(name) for name in timings.rounds}
        self.milliseconds[network] = self.milliseconds.get(network, {}) | times
        for name in timings.rounds:
            self.ratios[f"{network}: {name} / {YARDSTICK}"] = timings.ratio(name, YARDSTICK)
        return timings

    def slow_ways(self) -> None:
        """Textbook tables and brute force. Apart from the rest: their large arrays empty the
        caches for whoever runs next."""
        slow = {
            "textbook tables": HNCAWith(bernoulli_flip),
            BRUTE_FORCE: make_estimator(BRUTE_FORCE),
        }
        for depth in (1, 3):
            contenders = vae_contenders([UNITS] * depth, {"hnca": ESTIMATORS["hnca"]} | slow)
            timings = alternate(contenders, 3, STEPS, warmup=1)
            self.console.print(step_table(f"vae-{depth}, the slow ways", timings))
            for name in slow:
                self.ratios[f"vae-{depth}: hnca / {name}"] = timings.ratio("hnca", name)

    def tables(self) -> None:
        """The kernels alone."""
        table = Table("layer", "kernel", "/ forward product", title="Tables alone")
        for outputs, units in ((PIXELS, UNITS), (UNITS, UNITS)):
            timings = alternate(kernel_contenders(outputs, units, STEPS), self.rounds, STEPS)
            for name in timings.rounds:
                ratio = timings.ratio(name, "forward product")
                self.ratios[f"{outputs}x{units}: {name} / forward product"] = ratio
                table.add_row(f"{outputs} x {units}", name, f"{ratio:.2f}")
        self.console.print(table)

    def depths(self) -> None:
        """Step time against depth. Backpropagation is linear in it; so a method whose ratio to
        backpropagation stays is linear too, and one whose ratio grows along with depth, quadratic.
        The first layer and Adam cost all methods the same: it takes some depth to show."""
        sizes, rounds = [1, 2, 3, 4, 6, 8, 12, 16], max(self.rounds // 2, 3)
        series = sweep(sizes, lambda depth: [UNITS] * depth, BY_DEPTH, rounds, "depth")
        upto8 = slice(1, sizes.index(8) + 1)
        fits = {name: exponent(sizes[upto8], times[upto8]) for name, times in series.items()}
        self._growth("depth, 2 to 8 layers", sizes, series, fits)
        self._relative_growth(sizes, series)
        label = f"layers of {UNITS} units; exponent from 2 to 8"
        plot(self.out / "depth.png", sizes, series, fits, label)

    def _relative_growth(self, sizes: list[int], series: dict[str, list[float]]) -> None:
        """What a layer adds to the ratio to backpropagation: nothing, if both are linear."""
        for name in ("hnca", "loo", "disarm"):
            relative = np.divide(series[name], series[YARDSTICK])
            for size, ratio in zip(sizes, relative, strict=True):
                self.ratios[f"{size} layers: {name} / {YARDSTICK}"] = float(ratio)
            slope = float(np.polyfit(sizes[2:], relative[2:], 1)[0])
            self.ratios[f"{name} / {YARDSTICK}, added by a layer, 3 to {sizes[-1]} layers"] = slope
            self.console.print(f"{name} / {YARDSTICK}: {slope:+.3f} for each layer")

    def widths(self) -> None:
        """Step time against width."""
        sizes, rounds = [100, 200, 400, 800, 1600], max(self.rounds // 4, 3)
        only = {"hnca": ESTIMATORS["hnca"]}
        series = sweep(sizes, lambda width: [width] * 2, only, rounds, "width")
        fits = {name: exponent(sizes, times) for name, times in series.items()}
        plot(self.out / "width.png", sizes, series, fits, "units in each of two layers")
        self._growth("width, 100 to 1600 units", sizes, series, fits)

    def _growth(self, what: str, sizes: list[int], series: dict, fits: dict[str, float]) -> None:
        self.growth[what] = {"sizes": sizes, "milliseconds": series}
        for name, fit in fits.items():
            self.ratios[f"exponent of {name} in {what}"] = fit
            self.console.print(f"{name}: exponent in {what}: {fit:.2f}")

    def check(self) -> bool:
        """Prints each figure beside the most that it may be."""
        table = Table("figure", "measured", "at most", "", title="The bar")
        met = {name: self.ratios[name] <= bar for name, bar in BARS.items()}
        for name, bar in BARS.items():
            verdict = "ok" if met[name] else "MISSED"
            table.add_row(name, f"{self.ratios[name]:.2f}", f"{bar}", verdict)
        self.console.print(table)
        return all(met.values())

    def write(self) -> None:
        """Everything as JSON."""
        assert all(math.isfinite(value) for value in self.ratios.values())
        record = {
            "machine": f"{platform.machine()}, {os.cpu_count()} cores, {jax.default_backend()}",
            "jax": jax.__version__,
            "kernels": self.kernels,
            "bars": BARS,
            "ratios": {name: round(value, 3) for name, value in self.ratios.items()},
            "milliseconds per step": self.milliseconds,
            "growth": self.growth,
        }
        (self.out / "results.json").write_text(json.dumps(record, indent=2) + "\n")
        self.console.print(f"wrote results.json, depth.png and width.png to {self.out}")


def main() -> None:
    """Measures, prints, writes. Exits with 1 where the bar is missed."""
    parser = argparse.ArgumentParser(description="How long a training step takes.")
    parser.add_argument("--rounds", type=int, default=20, help="alternating runs of each contender")
    parser.add_argument("--out", type=Path, default=HERE, help="directory for results and plots")
    parts = ["networks", "bars", "slow_ways", "tables", "depths", "widths"]
    parser.add_argument("--only", choices=parts, help="measure this part again, keep the others")
    arguments = parser.parse_args()
    report = Report(arguments.rounds, arguments.out)
    if arguments.only:
        report.resume()
    for part in [arguments.only] if arguments.only else parts:
        getattr(report, part)()
        report.kernels[part] = native.kernel().name
    report.write()
    raise SystemExit(0 if report.check() else 1)


if __name__ == "__main__":
    main()
