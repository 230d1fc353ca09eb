"""How the time to set up and to trace a step grows with the length of a recurrent network.

    make bench

A cell of Bernoulli units, unrolled by hand, with a `Reward` at each step. Before any number is
computed, Python walks the graph: that must not take much longer than the graph is long.
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
BAR = 3.0  # the most that twice the length may take, as a multiple


def recurrent(steps: int) -> tuple[list[hnca.Node], list[hnca.Reward]]:
    """h@t reads h@(t-1) and x@t, and earns r@t."""
    nodes, rewards = [], []
    for step, key in enumerate(jax.random.split(jax.random.key(0), steps)):
        parents = [f"x@{step}"] if step == 0 else [f"h@{step - 1}", f"x@{step}"]
        layer = hnca.Bernoulli(INPUTS + UNITS * (step > 0), UNITS, key=key)
        nodes.append(hnca.Node(f"h@{step}", layer, parents))
        rewards.append(hnca.Reward(f"r@{step}", [f"h@{step}"]))
    return nodes, rewards


def seconds(run: Callable) -> tuple[float, Any]:
    """How long a call takes, and what it returns."""
    began = time.perf_counter()
    result = run()
    return time.perf_counter() - began, result


def measure(steps: int) -> dict[str, float]:
    """Seconds to make the graph, to make the estimator's state, and to trace a step. Every call
    meets names that no other has met, so nothing is found in a cache."""
    nodes, rewards = recurrent(steps)
    estimator = hnca.HNCA(hnca.MovingAverage())
    context = {f"x@{step}": jnp.ones((BATCH, INPUTS)) for step in range(steps)}

    def step(graph, state, key):
        sample = graph.sample(key, **context)
        answers = {part.name: jnp.sum(sample[part.parents[0]], axis=-1) for part in rewards}
        return estimator(graph, sample, state, reward=answers)

    graph_time, graph = seconds(lambda: hnca.Graph(nodes, rewards))
    init_time, state = seconds(lambda: estimator.init(graph, key=jax.random.key(0)))
    key = jax.random.key(1)
    trace_time, _ = seconds(lambda: eqx.filter_make_jaxpr(step)(graph, state, key))
    return {"graph": graph_time, "init": init_time, "trace": trace_time}


def main() -> None:
    """Prints the times and the ratio, and fails if the bar is missed."""
    measure(2)  # imports, and the first use of everything
    short, long = (measure(steps) for steps in LENGTHS)
    table = Table("part", *(f"{steps} steps, s" for steps in LENGTHS), "ratio", "at most", "")
    missed = False
    for part in short:
        ratio = long[part] / short[part]
        judged = part != "graph"
        missed |= judged and ratio > BAR
        verdict = ("MISSED" if ratio > BAR else "ok") if judged else ""
        bar = f"{BAR:g}" if judged else ""
        table.add_row(part, f"{short[part]:.3f}", f"{long[part]:.3f}", f"{ratio:.2f}", bar, verdict)
    Console().print(table)
    raise SystemExit(1 if missed else 0)


if __name__ == "__main__":
    main()
