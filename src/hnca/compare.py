"""Which method to take, on a network of one's own: bias, variance and price of each, measured.

Everything is measured at the parameters that the graph has, on the batch of B examples that is
given. With g the estimate of one example's gradient, and G the mean over the batch, which is what
an optimiser gets, over independent samples of the same batch:

    noise       mean over a layer's parameters of E_x Var(g | x) = B Var(G): for a fixed example
    variance    mean over the parameters of Var(g) over examples and samples: `gradient_variance`
    cosine      of the angle between one G and the reference gradient, on average
    bias        E G less the gradient: its exact size where all samples can be enumerated and the
                method draws none of its own; else the largest z-score, over each layer's product
                with the reference and with some random directions, and how likely one so large is
    efficiency  1 / (noise x time), the mean noise over the parameters of the nodes

A biased method has no efficiency: less noise around another mean is no gain to be weighed against
time alone. A method that climbs another objective than the sum of the components has neither bias
nor cosine either: it is no worse or better at what it does not do.

The reference is the exact gradient where it can be enumerated, else the mean of many samples of
the most efficient unbiased method.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, median, stdev
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray, PyTree

from .comparison import Comparison, Row
from .contenders import Contender, Problem, backpropagation, estimation, gradient_vectors
from .credit import parameter_counts
from .estimators import REGISTRY, AbstractEstimator, make_estimator
from .exact import World, configurations, exact_gradient
from .graph import Graph
from .tally import TINY, Tally, Vectors, chance, largest_z
from .validation import checked_arrays

YARDSTICK = "backpropagation"
BRUTE_FORCE = "local-expectation"  # what hnca computes, a hundred times slower
FIRST = ("hnca+baseline", "reinforce", "reinforce+baseline", "loo", "disarm")  # the paper's
DIRECTIONS = 8  # random ones, along which bias is looked for
DOUBTFUL = 5.0  # standard errors
LEAST_ROUNDS = 4  # whatever the budget
LEAST_METHODS = 2  # the same, where none are named
PREPARING, WARMING = 0.6, 0.15  # shares of the budget: at most, at least
LATE = "no time left: raise --budget (budget= in Python)"

Progress = Callable[[float, str], None]  # the share of the budget that is used, and what is done


def compare(
    graph: Graph,
    estimators: Sequence[str] | Mapping[str, AbstractEstimator] | None,
    key: PRNGKeyArray,
    /,
    *,
    reward: World | None = None,
    exact: bool = True,
    budget: float = 60.0,
    progress: Progress = lambda share, what: None,
    **context: ArrayLike,
) -> Comparison:
    """Measures methods on this graph and these examples, for about `budget` seconds.

    `estimators` has names of the registry, or estimators by any names: all of them are measured,
    even if that takes longer. None is all of the registry, as far as the budget goes.
    `reward` is a function of a `Sample`, as in `exact_gradient`; one that knows the examples by
    their places in the batch will do with `exact=False`, which enumerates nothing. A method that
    cannot do this graph is listed with its reason.

    >>> found = hnca.compare(graph, ["hnca", "reinforce"], key, x=x, budget=0.1)
    >>> found.reference
    'exact, by enumeration'
    """
    arrays = checked_arrays(context, graph.context_names, graph.node_names)
    problem, clock = Problem(graph, arrays, reward, exact), _Clock(budget, progress)
    ready, warm, reference_key, measure_key = jax.random.split(key, 4)
    least = LEAST_METHODS if estimators is None else len(estimators)
    contenders, left_out = _prepared(problem, _chosen(estimators), least, clock, ready)
    _warm_up(problem, contenders, clock, warm)
    reference = _reference(problem, contenders, clock, reference_key)
    _measure(problem, contenders, reference, clock, measure_key)
    yardstick, *methods = contenders
    rows = [_row(problem, each, yardstick, reference) for each in methods]
    return Comparison(_rated(rows, yardstick), left_out, reference.origin)


class _Clock:
    """How much of the budget is used."""

    def __init__(self, budget: float, progress: Progress):
        if not budget > 0:
            raise ValueError(f"compare: budget must be above 0 seconds, not {budget}")
        self._began, self._budget, self._progress = time.perf_counter(), budget, progress

    @property
    def used(self) -> float:
        return (time.perf_counter() - self._began) / self._budget

    def share(self, seconds: float) -> float:
        """Of the budget."""
        return seconds / self._budget

    def tell(self, what: str) -> None:
        self._progress(min(self.used, 1.0), what)


def _chosen(
    estimators: Sequence[str] | Mapping[str, AbstractEstimator] | None,
) -> dict[str, AbstractEstimator]:
    if isinstance(estimators, Mapping):
        return dict(estimators)
    everything = [name for name in (*FIRST, *REGISTRY) if name != BRUTE_FORCE]
    names = everything if estimators is None else estimators
    return {name: make_estimator(name) for name in dict.fromkeys(names)}


# Preparation


def _prepared(
    problem: Problem,
    chosen: dict[str, AbstractEstimator],
    least: int,
    clock: _Clock,
    key: PRNGKeyArray,
) -> tuple[list[Contender], dict[str, str]]:
    """The yardstick and the methods that can do this, compiled, one after the other; and why the
    others are left out. The `least` number of methods are there whatever the budget."""
    contenders, left_out = [Contender(YARDSTICK, None, (), backpropagation(problem))], {}
    contenders[0].prepare(problem)
    for number, (name, estimator) in enumerate(chosen.items()):
        later = max(1 - PREPARING, WARMING + _needed(clock, contenders))
        if clock.used + later > 1 and len(contenders) > least:
            left_out[name] = LATE
            continue
        clock.tell(f"compiling {name}")
        try:
            state = estimator.init(problem.graph, key=jax.random.fold_in(key, number))
            contender = Contender(name, estimator, state, estimation(problem, estimator))
            contender.prepare(problem)
        except ValueError as error:
            reason = str(error).partition("\n")[0]
            left_out[name] = reason.removeprefix(f"{type(estimator).__name__} ")
            continue
        for call in range(2):  # the first of all is slower than others
            contender.draw(problem, jax.random.fold_in(key, call))
        contenders.append(contender)
    return contenders, left_out


def _needed(clock: _Clock, contenders: list[Contender]) -> float:
    """The share of the budget that the least of measuring takes, with the reference before it."""
    return clock.share(2 * LEAST_ROUNDS * sum(each.took for each in contenders))


# Reference


def _warm_up(
    problem: Problem, contenders: list[Contender], clock: _Clock, key: PRNGKeyArray
) -> None:
    """Baselines and control variates learn from what they see: let them, for as long each, within
    reason. Then two calls of each method show what to expect."""
    for place, each in enumerate(contenders):
        each.learn(problem, jax.random.fold_in(key, place))
    number = len(contenders)
    while pupils := [each for each in contenders if each.is_learning]:
        if clock.used + _needed(clock, contenders) > 1:
            break
        least = min(pupils, key=lambda each: each.taught)
        clock.tell(f"warming up {least.name}")
        least.learn(problem, jax.random.fold_in(key, number))
        number += 1
    for place, each in enumerate(contenders):
        each.forget()
        for call in range(2):
            own = jax.random.fold_in(jax.random.fold_in(key, number + place), call)
            each.draw(problem, own)


class _Reference(NamedTuple):
    """The gradient that the estimates are held against."""

    mean: Vectors
    directions: Vectors  # for each layer, its own part of the mean and some random ones
    along: Tally  # of the gradient along them
    origin: str


def _reference(
    problem: Problem, contenders: list[Contender], clock: _Clock, key: PRNGKeyArray
) -> _Reference:
    if problem.is_enumerable:
        clock.tell("enumerating all samples")
        _, grads = exact_gradient(problem.graph, reward=problem.world, **problem.context)
        mean = gradient_vectors(problem.graph, grads)
        directions = _directions(mean, key)
        along = {name: directions[name] @ vector for name, vector in mean.items()}
        return _Reference(mean, directions, Tally.exactly(along), "exact, by enumeration")
    fair = [
        each
        for each in contenders
        if each.estimator is not None and each.estimator.unbiased and not each.has_other_objective
    ]
    if not fair:
        raise ValueError("compare: needs an unbiased method to compare with: add hnca")
    best = min(fair, key=lambda each: _mean_noise(problem, each.gradient) * median(each.seconds))
    return _sampled_reference(problem, best, clock, key)


def _sampled_reference(
    problem: Problem, best: Contender, clock: _Clock, key: PRNGKeyArray
) -> _Reference:
    """From many samples of one method. The first half says which way to look, the second half
    how far the gradient goes that way: so the two are independent."""
    whole, along, directions = Tally(), Tally(), {}
    for half in range(2):
        number, until = 0, clock.used + max(0.15 * (1 - clock.used), 0.02)
        while number < LEAST_ROUNDS or clock.used < until:
            clock.tell(f"reference gradient by {best.name}")
            own = jax.random.fold_in(jax.random.fold_in(key, half), number)
            vectors = best.draw(problem, own)
            whole.add(vectors)
            if directions:
                along.add(_projected(vectors, directions))
            number += 1
        directions = directions or _directions(whole.mean, key)
    return _Reference(whole.mean, directions, along, f"{whole.count} samples of {best.name}")


def _directions(mean: Vectors, key: PRNGKeyArray) -> Vectors:
    """For each layer, its own direction and some random ones, of length 1."""
    found = {}
    for number, (name, vector) in enumerate(mean.items()):
        shape = (DIRECTIONS, vector.size)
        signs = jax.random.rademacher(jax.random.fold_in(key, number), shape, vector.dtype)
        own = vector / jnp.maximum(jnp.linalg.norm(vector), TINY)
        found[name] = jnp.concatenate([own[None], signs / math.sqrt(vector.size)])
    return found


@jax.jit
def _projected(vectors: Vectors, directions: Vectors) -> Vectors:
    return {name: array @ directions[name].T for name, array in vectors.items()}


@jax.jit
def _angles(vectors: Vectors, mean: Vectors) -> tuple[Float[Array, " N"], Float[Array, " N"]]:
    """Cosines with the reference, and how much of the reference there is in each."""
    inner = lambda a, b: sum(jnp.sum(a[name] * b[name], axis=-1) for name in a)
    reference = {name: vector[None] for name, vector in mean.items()}
    product, square = inner(vectors, reference), jnp.maximum(inner(reference, reference), TINY)
    return product / jnp.sqrt(jnp.maximum(inner(vectors, vectors), TINY) * square), product / square


# Results


def _measure(
    problem: Problem,
    contenders: list[Contender],
    reference: _Reference,
    clock: _Clock,
    key: PRNGKeyArray,
) -> None:
    """Rounds, in each of which every method draws once, until the budget is used up."""
    for each in contenders:
        each.forget()
    number, took = 0, 0.0
    while number < LEAST_ROUNDS or clock.used + took < 1:
        began = clock.used
        for place, each in enumerate(contenders):
            clock.tell(f"measuring {each.name}")
            own = jax.random.fold_in(jax.random.fold_in(key, number), place)
            vectors = each.draw(problem, own)
            each.along.add(_projected(vectors, reference.directions))
            cosines, shares = _angles(vectors, reference.mean)
            each.cosines += cosines.tolist()
            each.shares += shares.tolist()
        number, took = number + 1, clock.used - began


def _row(problem: Problem, each: Contender, yardstick: Contender, reference: _Reference) -> Row:
    assert each.estimator is not None
    pairs = zip(each.seconds, yardstick.seconds, strict=True)
    variance = {name: fmean(one[name] for one in each.variances) for name in each.variances[0]}
    row = Row(
        name=each.name,
        unbiased=each.estimator.unbiased,
        noise=_noise(problem, each.gradient),
        variance=variance,
        mean_noise=_mean_noise(problem, each.gradient),
        mean_variance=_over_nodes(problem, variance),
        samples=int(each.gradient.count),
        warm_up=each.warm_up,
        is_learning=each.is_learning,
        milliseconds=median(each.seconds) * 1e3,
        relative_time=median(mine / theirs for mine, theirs in pairs),
        megabytes=each.megabytes,
    )
    if each.has_other_objective:
        return row._replace(objective=each.estimator.objective.words)
    row = row._replace(cosine=fmean(each.cosines))
    bias = _exact_bias(problem, each.estimator, each.state, reference.mean)
    if bias is not None:
        return row._replace(bias=bias)
    return row._replace(
        z=largest_z(each.along, reference.along),
        chance=chance(each.along, reference.along),
        visible=DOUBTFUL * stdev(each.shares) / math.sqrt(len(each.shares)),
    )


def _rated(rows: list[Row], yardstick: Contender) -> tuple[Row, ...]:
    """The most efficient first, with 1; then the biased; then those that climb something else."""
    price = lambda row: (row.mean_noise or 0.0) * row.milliseconds
    is_fair = lambda row: (
        row.unbiased and not row.is_seen_biased and row.objective is None and price(row) > 0
    )
    least = min((price(row) for row in rows if is_fair(row)), default=0.0)
    rated = [row._replace(efficiency=least / price(row)) if is_fair(row) else row for row in rows]
    ranked = sorted(rated, key=lambda row: (row.objective is not None, -row.efficiency, price(row)))
    cost = median(yardstick.seconds) * 1e3
    return (*ranked, Row(YARDSTICK, {}, {}, milliseconds=cost, megabytes=yardstick.megabytes))


def _noise(problem: Problem, gradient: Tally) -> dict[str, float]:
    """B Var(G), averaged over a layer's parameters."""
    mean = lambda name: problem.batch * float(jnp.mean(gradient.variance(name)))
    return {name: mean(name) for name in gradient.mean}


def _mean_noise(problem: Problem, gradient: Tally) -> float:
    return _over_nodes(problem, _noise(problem, gradient))


def _over_nodes(problem: Problem, by_layer: dict[str, float]) -> float:
    """The mean over their parameters: those of the objective get the same from every method."""
    counts = parameter_counts(problem.graph)
    nodes = [name for name in by_layer if name in problem.graph.structure.place]
    total = sum(counts[name] for name in nodes)
    return sum(counts[name] * by_layer[name] for name in nodes) / max(total, 1)


def _exact_bias(
    problem: Problem, estimator: AbstractEstimator, state: PyTree, gradient: Vectors
) -> float | None:
    """As a share of the gradient; None where samples cannot be enumerated, or where the method
    draws some of its own."""
    if not problem.is_enumerable:
        return None
    try:
        expected = _expected(problem, estimator, state)
    except ValueError:  # it asks for a key
        return None
    length = lambda vectors: math.sqrt(sum(float(jnp.sum(v**2)) for v in vectors.values()))
    return length(jax.tree.map(jnp.subtract, expected, gradient)) / max(length(gradient), TINY)


@eqx.filter_jit
def _expected(problem: Problem, estimator: AbstractEstimator, state: PyTree) -> Vectors:
    """The exact mean of the estimate, over every sample of every example."""
    graph, everything = problem.graph, configurations(problem.graph)
    count = len(next(iter(everything.values())))

    def of_example(example: dict[str, Array]) -> Vectors:
        repeated = {k: jnp.broadcast_to(v[None], (count, *v.shape)) for k, v in example.items()}
        sample = graph.observe(**everything, **repeated)
        answer = None if problem.world is None else problem.world(sample)
        weights = jnp.exp(sample.log_prob) * count  # so that a mean over samples is the expectation
        estimate, _ = estimator(graph, sample, state, reward=answer, weights=weights)
        return gradient_vectors(graph, estimate.grads)

    if not problem.context:
        return of_example({})
    by_example = jax.lax.map(of_example, problem.context)
    return jax.tree.map(lambda leaf: jnp.mean(leaf, axis=0), by_example)
