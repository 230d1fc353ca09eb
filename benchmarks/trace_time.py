"""How the time to set up, trace and compile a step grows with the length of a recurrent network.

    make bench

A cell of Bernoulli units, unrolled in time, with a `Reward` at each step. Before any number is
computed, Python walks the graph and XLA compiles what it finds: neither may take much longer than
the network is long. Not judged: how long a compiled step takes.
"""

import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from rich.console import Console
from rich.table import Table

import hnca

LENGTHS = (32, 64)
UNITS, INPUTS, BATCH = 8, 4, 5
BAR = 2.6  # the most that twice the length may take, as a multiple
JUDGED = ("graph", "init", "trace", "compile")


def recurrent(steps: int) -> tuple[list[hnca.Node], list[hnca.AbstractComponent]]:
    """h@t reads h@(t-1) and x@t, and earns r@t."""
    cell = hnca.Bernoulli(INPUTS + UNITS, UNITS, key=jax.random.key(0))

    def step(t: int):
        node = hnca.Node(f"h@{t}", cell, [f"h@{t - 1}", f"x@{t}"])
        return [node, hnca.Reward(f"r@{t}", [f"h@{t}"])]

    return hnca.unroll(step, steps)


def seconds(run: Callable) -> tuple[float, Any]:
    """How long a call takes, and what it returns."""
    began = time.perf_counter()
    result = run()
    return time.perf_counter() - began, result


def measure(steps: int) -> dict[str, float]:
    """Seconds to make the graph, to make the estimator's state, to trace a step, to compile it and
    to run it. Every call meets names that no other has met, so nothing is found in a cache."""
    nodes, rewards = recurrent(steps)
    estimator = hnca.HNCA(hnca.MovingAverage())
    context = hnca.by_time(x=jnp.ones((BATCH, steps, INPUTS)))
    context |= {"h@-1": jnp.zeros((BATCH, UNITS))}

    @eqx.filter_jit
    def step(graph, state, key):
        sample = graph.sample(key, **context)
        names = [part.name for part in rewards]
        answers = {name: jnp.sum(sample[name.replace("r", "h")], axis=-1) for name in names}
        return estimator(graph, sample, state, reward=answers)

    graph_time, graph = seconds(lambda: hnca.Graph(nodes, rewards))
    init_time, state = seconds(lambda: estimator.init(graph))
    arguments = graph, state, jax.random.key(1)
    trace_time, lowered = seconds(lambda: step.lower(*arguments))
    compile_time, compiled = seconds(lowered.compile)
    jax.block_until_ready(eqx.filter(compiled(*arguments), eqx.is_array))  # the first call is slow
    run = lambda: jax.block_until_ready(eqx.filter(compiled(*arguments), eqx.is_array))
    run_time, _ = seconds(run)
    times = graph_time, init_time, trace_time, compile_time, run_time
    return dict(zip((*JUDGED, "run"), times, strict=True))


def main() -> None:
    """Prints the times and the ratio, and fails if the bar is missed."""
    measure(2)  # imports, and the first use of everything
    short, long = (measure(steps) for steps in LENGTHS)
    table = Table("part", *(f"{steps} steps, s" for steps in LENGTHS), "ratio", "at most", "")
    missed = False
    for part in short:
        ratio = long[part] / short[part]
        judged = part in JUDGED
        missed |= judged and ratio > BAR
        verdict = ("MISSED" if ratio > BAR else "ok") if judged else ""
        bar = f"{BAR:g}" if judged else ""
        table.add_row(part, f"{short[part]:.4f}", f"{long[part]:.4f}", f"{ratio:.2f}", bar, verdict)
    Console().print(table)
    raise SystemExit(1 if missed else 0)


if __name__ == "__main__":
    main()
