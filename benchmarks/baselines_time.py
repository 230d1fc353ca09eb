"""What a baseline that sees the example costs in a training step.

    make bench
    PJRT_NPROC=1 python benchmarks/baselines_time.py    # on one core, as the runs of a sweep

A resampled baseline costs at most what leave-one-out has beyond backpropagation; a learned one, a
small part of a step. Alternating runs in one process, as in step_time.py.

On two cores, how XLA's threads share a step out differs from one network to the next, and moves a
ratio by a tenth. One core has no such luck.
"""

import argparse
from statistics import median

from step_time import UNITS, YARDSTICK, bandit_contenders, vae_contenders
from timing import Timings, alternate

from hnca.estimators import make_estimator

METHODS = ("hnca", "hnca+baseline", "hnca+loo", "hnca+learned", "loo")
LEARNED_BAR = 1.15
STEPS = 200  # an epoch has more; with few, the time of a call would count


def resampled(timings: Timings) -> float:
    """A step of hnca+loo, beside one of hnca and one of loo less backpropagation."""
    names = ("hnca+loo", "hnca", "loo", YARDSTICK)
    rounds = zip(*(timings.rounds[name] for name in names), strict=True)
    return median(both / (hnca + loo - less) for both, hnca, loo, less in rounds)


def main() -> None:
    """Prints the ratios beside the most that they may be. Exits with 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description="What baselines cost.")
    parser.add_argument("--rounds", type=int, default=10, help="alternating runs of each contender")
    rounds = parser.parse_args().rounds
    met = True

    def check(figure: str, ratio: float, bar: float, said: str = "") -> None:
        nonlocal met
        met &= ratio <= bar
        verdict = "ok" if ratio <= bar else "MISSED"
        print(f"{figure:55} {ratio:5.2f}, at most {bar:4}: {verdict}{said}", flush=True)

    def check_learned(network: str, timings: Timings) -> None:
        learned, average = "hnca+learned", "hnca+baseline"
        said = f" ({timings.median(learned):.3f} and {timings.median(average):.3f} ms)"
        ratio = timings.ratio(learned, average)
        check(f"{network}: {learned} / {average}", ratio, LEARNED_BAR, said)

    estimators = {name: make_estimator(name) for name in METHODS}
    for depth in (1, 2, 3):
        timings = alternate(vae_contenders([UNITS] * depth, estimators, steps=STEPS), rounds, STEPS)
        check(f"vae-{depth}: hnca+loo / (hnca + loo - {YARDSTICK})", resampled(timings), 1.0)
        check_learned(f"vae-{depth}", timings)
    alone = {name: estimators[name] for name in ("hnca+baseline", "hnca+learned")}
    for depth in (1, 2, 3):
        timings = alternate(bandit_contenders([UNITS] * depth, alone, steps=STEPS), rounds, STEPS)
        check_learned(f"bandit-{depth}", timings)
    raise SystemExit(0 if met else 1)


if __name__ == "__main__":
    main()
