"""Every method by name: for the command line, the benchmark and the tests."""

from collections.abc import Callable
from typing import NamedTuple

from ..baselines import AbstractBaseline, Learned, MovingAverage, Resampled
from .base import AbstractEstimator
from .disarm import ARM, DisARM
from .hnca import HNCA
from .leave_one_out import LeaveOneOut
from .local_expectation import LocalExpectation
from .reinforce import Reinforce
from .straight_through import StraightThrough


class Method(NamedTuple):
    """A method, and what to say of it in a line."""

    make: Callable[..., AbstractEstimator]
    summary: str
    centred: bool = False  # may have a baseline: `make` takes one


class Baseline(NamedTuple):
    """A baseline, and what to say of it in a line."""

    make: Callable[[], AbstractBaseline]
    summary: str


METHODS: dict[str, Method] = {
    "hnca": Method(HNCA, "credit by influence on the immediate children (the paper)", True),
    "reinforce": Method(Reinforce, "what a unit did, times what came of it", True),
    "loo": Method(LeaveOneOut, "REINFORCE with a second sample from each layer as baseline"),
    "loo-independent": Method(
        lambda: LeaveOneOut(coupling="independent"),
        "REINFORCE with a second, independent forward pass as baseline",
    ),
    "disarm": Method(DisARM, "an antithetic pair for each layer"),
    "arm": Method(ARM, "the same with more variance: DisARM's older sibling"),
    "straight-through": Method(StraightThrough, "backpropagation through the means; biased"),
    "local-expectation": Method(LocalExpectation, "what hnca computes, by brute force"),
}

# After a `+`, for the methods that may have one.
BASELINES: dict[str, Baseline] = {
    "baseline": Baseline(lambda: MovingAverage(0.99), "a moving average for each layer"),
    "loo": Baseline(Resampled, "what comes of a fresh sample from each layer down"),
    "learned": Baseline(Learned, "what a small network predicts of each layer's inputs"),
}


def _with_baselines(name: str, method: Method) -> dict[str, Method]:
    """The method as it is, and with each baseline that it may have."""
    found = {name: method}
    for end, baseline in BASELINES.items() if method.centred else ():
        make = lambda baseline=baseline: method.make(baseline.make())
        found[f"{name}+{end}"] = Method(make, f"{name}, less {baseline.summary}")
    return found


REGISTRY: dict[str, Method] = {
    name: method
    for each, alone in METHODS.items()
    for name, method in _with_baselines(each, alone).items()
}


def make_estimator(name: str) -> AbstractEstimator:
    """The method with this name, in the paper's settings: `METHOD`, or `METHOD+BASELINE`."""
    if name in REGISTRY:
        return REGISTRY[name].make()
    known = "\n".join(f"  {known:20}{method.summary}" for known, method in REGISTRY.items())
    raise ValueError(f"unknown estimator '{name}': {_unknown(name)}. Known are:\n{known}")


def _unknown(name: str) -> str:
    """Which part of a name it is that there is not."""
    method, _, baseline = name.partition("+")
    if method not in METHODS:
        return f"there is no method '{method}'"
    if baseline not in BASELINES:
        return f"there is no baseline '{baseline}'"
    return f"'{method}' has no baseline"
