"""Every method by name: for the command line, the benchmark and the tests."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from ..baselines import AbstractBaseline, Learned, MovingAverage, Resampled
from .base import AbstractEstimator
from .disarm import ARM, DisARM
from .double_cv import DoubleCV
from .gumbel_softmax import GumbelSoftmax, GumbelStraightThrough
from .hnca import HNCA
from .importance_em import ImportanceEM
from .leave_one_out import LeaveOneOut
from .local_expectation import LocalExpectation
from .muprop import MuProp
from .rebar import Rebar
from .reinforce import Reinforce
from .relax import Relax
from .straight_through import ReinMax, StraightThrough
from .vimco import Vimco


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
    "nvil": Method(
        lambda: Reinforce(Learned(normalise=True)),
        "reinforce+learned, each layer divided by how far it was off of late: right but for length",
    ),
    "loo": Method(LeaveOneOut, "REINFORCE with a second sample from each layer as baseline"),
    "loo-independent": Method(
        lambda: LeaveOneOut(coupling="independent"),
        "REINFORCE with a second, independent forward pass as baseline",
    ),
    "disarm": Method(DisARM, "an antithetic pair for each layer"),
    "arm": Method(ARM, "the same with more variance: DisARM's older sibling"),
    "double-cv": Method(DoubleCV, "leave-one-out, less what derivatives at each sample explain"),
    "muprop": Method(MuProp, "REINFORCE, less a Taylor expansion around the means"),
    "rebar": Method(Rebar, "REINFORCE, less the objective at relaxed values"),
    "relax": Method(Relax, "the same with a network that learns to lower the variance"),
    "straight-through": Method(StraightThrough, "backpropagation through the means; biased"),
    "reinmax": Method(ReinMax, "the same to second order; biased, but less"),
    "gumbel-softmax": Method(GumbelSoftmax, "smooth variables in place of units; biased"),
    "gumbel-straight-through": Method(
        GumbelStraightThrough, "backpropagation through the units as if they were smooth; biased"
    ),
    "vimco": Method(Vimco, "another objective: the bound of five samples, each by its own part"),
    "importance-em": Method(
        ImportanceEM, "another objective: five samples, weighed by how they explain the data"
    ),
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
    """The method with this name, in the paper's settings: `METHOD`, or `METHOD+BASELINE`.

    >>> hnca.make_estimator("hnca+baseline").baseline
    MovingAverage(decay=0.99)
    """
    if name in REGISTRY:
        return REGISTRY[name].make()
    raise ValueError(unknown_estimator(name, REGISTRY))


def unknown_estimator(name: str, known: Iterable[str]) -> str:
    """Which part of a name it is that there is not, and what there is."""
    method, _, baseline = name.partition("+")
    if method not in METHODS:
        missing = f"there is no method '{method}'"
    elif baseline not in BASELINES:
        missing = f"there is no baseline '{baseline}'"
    else:
        missing = f"'{method}' has no baseline"
    return f"unknown estimator '{name}': {missing}; choose one of {', '.join(known)}"
