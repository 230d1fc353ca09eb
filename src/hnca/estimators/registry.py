"""Every method by name: for the command line, the benchmark and the tests."""

from collections.abc import Callable
from typing import NamedTuple

from ..baselines import MovingAverage
from .base import AbstractEstimator
from .disarm import ARM, DisARM
from .hnca import HNCA
from .leave_one_out import LeaveOneOut
from .local_expectation import LocalExpectation
from .reinforce import Reinforce
from .straight_through import StraightThrough


class Entry(NamedTuple):
    """A method, and what to say of it in a line."""

    make: Callable[[], AbstractEstimator]
    summary: str


REGISTRY: dict[str, Entry] = {
    "hnca": Entry(HNCA, "credit by influence on the immediate children (the paper)"),
    "hnca+baseline": Entry(
        lambda: HNCA(MovingAverage(0.99)), "the same, less a moving average for each layer"
    ),
    "reinforce": Entry(Reinforce, "what a unit did, times what came of it"),
    "reinforce+baseline": Entry(
        lambda: Reinforce(MovingAverage(0.99)), "the same, less a moving average for each layer"
    ),
    "loo": Entry(LeaveOneOut, "REINFORCE with a second sample from each layer as baseline"),
    "loo-independent": Entry(
        lambda: LeaveOneOut(coupling="independent"),
        "REINFORCE with a second, independent forward pass as baseline",
    ),
    "disarm": Entry(DisARM, "an antithetic pair for each layer"),
    "arm": Entry(ARM, "the same with more variance: DisARM's older sibling"),
    "straight-through": Entry(StraightThrough, "backpropagation through the means; biased"),
    "local-expectation": Entry(LocalExpectation, "what hnca computes, by brute force"),
}


def make_estimator(name: str) -> AbstractEstimator:
    """The method with this name, in the paper's settings."""
    if name not in REGISTRY:
        known = "\n".join(f"  {known:20}{entry.summary}" for known, entry in REGISTRY.items())
        raise ValueError(f"unknown estimator '{name}'. Known are:\n{known}")
    return REGISTRY[name].make()
