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


class Method(NamedTuple):
    """A method, and what to say of it in a line."""

    make: Callable[[], AbstractEstimator]
    summary: str


REGISTRY: dict[str, Method] = {
    "hnca": Method(HNCA, "credit by influence on the immediate children (the paper)"),
    "hnca+baseline": Method(
        lambda: HNCA(MovingAverage(0.99)), "the same, less a moving average for each layer"
    ),
    "reinforce": Method(Reinforce, "what a unit did, times what came of it"),
    "reinforce+baseline": Method(
        lambda: Reinforce(MovingAverage(0.99)), "the same, less a moving average for each layer"
    ),
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


def make_estimator(name: str) -> AbstractEstimator:
    """The method with this name, in the paper's settings.

    >>> hnca.make_estimator("hnca+baseline").baseline
    MovingAverage(decay=0.99)
    """
    if name not in REGISTRY:
        known = "\n".join(f"  {known:20}{method.summary}" for known, method in REGISTRY.items())
        raise ValueError(f"unknown estimator '{name}'. Known are:\n{known}")
    return REGISTRY[name].make()
