"""What an experiment is: settings that the command line shows, its data, and a graph, a step and a
test that training runs."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import jax
import numpy as np
import optax
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray, PyTree

from ...credit import parameter_counts
from ...estimators import REGISTRY, AbstractEstimator, make_estimator, unknown_estimator
from ...exact import World
from ...graph import Graph
from ...optimizers import maximize
from ...weights import Weights
from ..errors import UsageError, UserError

Say = Callable[[str], None]  # tells the user a line


@dataclass(frozen=True, eq=False)
class Data:
    """What an experiment learns from, and what it is judged by.

    Both are arrays of any shapes, in any pytree (a dictionary, say). A leaf has a row for each
    example: what a step gets is some rows, what a test gets is one."""

    train: PyTree
    test: PyTree
    name: str = "data"
    source: str = "the experiment"  # where it came from, for people
    known_fingerprint: str | None = None  # where it was found before

    def __post_init__(self) -> None:
        for split, rows in (("train", self.train), ("test", self.test)):
            counts = {len(leaf) if np.ndim(leaf) else 0 for leaf in jax.tree.leaves(rows)}
            if len(counts) != 1 or 0 in counts:
                raise UserError(
                    f"data '{self.name}': the {split} arrays must all have the same number of "
                    f"rows, one for each example, but they have {sorted(counts) or 'no arrays'}"
                )

    @staticmethod
    def simulated(train: int, test: int, name: str = "simulator") -> "Data":
        """Of a simulator there is nothing to load: its rows are no more than their numbers. An
        epoch has so many examples, and so has a test."""
        numbered = lambda count: {"number": np.arange(count, dtype=np.int32)}
        return Data(numbered(train), numbered(test), name, "a simulator")

    def first(self, train: int, test: int) -> "Data":
        """No more than so many rows of each."""
        cut = lambda rows, count: jax.tree.map(lambda array: array[:count], rows)
        return replace(self, train=cut(self.train, train), test=cut(self.test, test))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over structure, shapes and bytes: a run goes on with the same data only."""
        if self.known_fingerprint:
            return self.known_fingerprint
        digest = hashlib.sha256(str(jax.tree.structure((self.train, self.test))).encode())
        for leaf in jax.tree.leaves((self.train, self.test)):
            array = np.ascontiguousarray(leaf)
            digest.update(f"{array.shape} {array.dtype}".encode())
            digest.update(array.tobytes())
        return digest.hexdigest()


def count_rows(rows: PyTree) -> int:
    """How many examples there are."""
    return len(jax.tree.leaves(rows)[0])


class Step(NamedTuple):
    """What is done in a training step."""

    context: Mapping[str, ArrayLike]  # for `graph.sample`
    world: World | None = None  # answers a sample with its reward; None if nothing is opaque
    weights: Weights | Callable[[Float[Array, ""]], Weights] | None = None
    """Of the examples `[B]`, or of components by name: see `AbstractEstimator`. A function of the
    progress, in epochs from 0, is for training alone: metrics are of the objective without."""


MOST, MOST_LAYERS = 2**31, 256  # of anything that is counted; each layer is compiled by itself
POSITIVE = ("epochs", "updates", "batch_size", "learning_rate", "clip", "eval_every")


@dataclass(frozen=True)
class AbstractExperiment(ABC):
    """Something to train. The fields of the dataclass are its settings: a subclass adds its own,
    with a line of text below each. A run depends on nothing else but the versions of the software
    and the machine. To be written: `data`, `graph`, `step` and `test`."""

    estimator: str = "hnca+baseline"
    """How the gradient is estimated."""
    epochs: int = 100
    """How often to go through the training data. A finished run goes on when this is raised."""
    seed: int = 0
    """Seed of everything random: the initial weights, the order of the data, the units."""
    batch_size: int = 50
    """Examples in one step."""
    learning_rate: float = 1e-4
    """Step size of the optimizer."""
    optimizer: Literal["adam", "sgd", "rmsprop", "adamw"] = "adam"
    """From optax, with its other settings at their defaults."""
    schedule: Literal["constant", "cosine", "linear"] = "constant"
    """What becomes of the learning rate: it stays, or falls to 0 by the last step. A run whose
    rate falls cannot be given more epochs."""
    warmup_steps: int = 0
    """The learning rate rises from 0 in so many steps first."""
    clip: float | None = None
    """Scales a gradient down whose norm, over all parameters, is above this."""
    updates: int | None = None
    """Train for so many steps instead of --epochs, rounded up to whole epochs."""
    eval_every: int = 1
    """Test after every so many epochs; the summary has a test after the last one anyway."""

    measure: ClassVar[str] = "value"
    """What the objective's mean is called: `accuracy`, say, for `train_accuracy`."""
    told: ClassVar[tuple[str, ...]] = ("estimator",)
    """The settings that the title tells."""
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Other defaults of the settings, by a name for `--preset`."""

    @abstractmethod
    def data(self, directory: Path | None, say: Say) -> Data:
        """What to train and test on; the same for every seed. `directory` is where the user says
        that data is (--data-dir), and `say` tells them what takes long."""

    def fetch(self, directory: Path | None, say: Say) -> None:  # noqa: B027
        """Gets what comes from a network, if anything does, before several workers look for it."""

    @abstractmethod
    def graph(self, data: Any, key: PRNGKeyArray) -> Graph:
        """The untrained network."""

    @abstractmethod
    def step(self, rows: Any, key: PRNGKeyArray) -> Step:
        """A training step on some rows of the training data, with a key for whatever is random
        in its context."""

    @abstractmethod
    def test(self, graph: Graph, row: Any, key: PRNGKeyArray) -> dict[str, Float[Array, ""]]:
        """Metrics of one row of the test data; the run reports their means."""

    @property
    def title(self) -> str:
        """Task and method in a few words, fit for the name of a directory."""
        return f"{type(self).__name__.lower()}-{self.estimator}"

    @property
    def data_name(self) -> str:
        """What the data is called in names of runs; nothing where the title tells."""
        return ""

    def measured_layers(self, graph: Graph) -> Sequence[str]:
        """The layers that the mean gradient variance is over: all that have parameters."""
        return list(parameter_counts(graph))

    def objection(self, estimator: AbstractEstimator) -> str | None:
        """Why the method cannot do this experiment, if it cannot."""
        return None

    @property
    def estimators(self) -> list[str]:
        """The names of the methods that can do this experiment."""
        return [name for name in REGISTRY if not self.objection(make_estimator(name))]

    def located(self) -> "AbstractExperiment":
        """The same, with whole paths: workers may have been started elsewhere."""
        return self

    def check(self) -> None:
        """Refuses settings that make no sense, before anything is done."""
        if self.estimator not in REGISTRY:
            raise UsageError(unknown_estimator(self.estimator, self.estimators))
        if objection := self.objection(self.make_estimator()):
            others = ", ".join(self.estimators)
            raise UsageError(f"estimator '{self.estimator}' {objection}; use one of {others}")
        if not 0 <= self.seed < 2**32:
            raise UsageError(f"--seed must be from 0 to {2**32 - 1}, not {self.seed}")
        self.check_positive(*POSITIVE)
        self.check_positive("warmup_steps", or_zero=True)

    def check_positive(self, *names: str, or_zero: bool = False) -> None:
        """Refuses settings that must be above 0 (or 0 at the least), or left out."""
        least = "0 or more" if or_zero else "above 0"
        for name in names:
            value = getattr(self, name)
            if value is not None and not (0 < value < MOST or (or_zero and value == 0)):
                limit = least if value < MOST else f"below {MOST:,}"
                raise UsageError(f"--{name.replace('_', '-')} must be {limit}, not {value}")

    def check_layers(self, count: int) -> None:
        """Refuses networks that would hardly ever be compiled."""
        if count > MOST_LAYERS:
            raise UsageError(f"--layers must be {MOST_LAYERS} or fewer, not {count}")

    def make_estimator(self) -> AbstractEstimator:
        """The method, in the paper's settings."""
        return make_estimator(self.estimator)

    def make_optimizer(self, steps: int) -> optax.GradientTransformation:
        """The optimizer, uphill, for a run of so many steps."""
        optimizer = getattr(optax, self.optimizer)(self._learning_rate(steps))
        if self.clip is not None:
            optimizer = optax.chain(optax.clip_by_global_norm(self.clip), optimizer)
        return maximize(optimizer)

    def _learning_rate(self, steps: int) -> float | optax.Schedule:
        rate, rise = self.learning_rate, self.warmup_steps
        if self.schedule == "constant" and not rise:
            return rate
        if rise >= steps:
            raise UsageError(f"--warmup-steps {rise}: the whole run has no more than {steps} steps")
        rest = {
            "constant": optax.constant_schedule(rate),
            "cosine": optax.cosine_decay_schedule(rate, steps - rise),
            "linear": optax.linear_schedule(rate, 0, steps - rise),
        }[self.schedule]
        if not rise:
            return rest
        return optax.join_schedules([optax.linear_schedule(0, rate, rise), rest], [rise])

    @property
    def free(self) -> tuple[str, ...]:
        """The settings that do not make another run: it may have more epochs, unless its learning
        rate depends on where it ends, and its data may lie anywhere."""
        return ("epochs", "updates", "dataset") if self.schedule == "constant" else ("dataset",)
