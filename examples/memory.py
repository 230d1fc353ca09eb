"""A network of stochastic bits that must remember: who learns it, and over how many steps?

    python examples/memory.py --out docs/memory.png

Three bits are shown at time 0, and asked for at time T. Between, the network sees nothing but its
own state: a layer of Bernoulli units that is tied through time. It starts as a poor copier of
itself, and has to learn to keep the bits in spite of its own noise. Every method gets as many
forward passes: leave-one-out draws two for each example, and so has half the examples.
"""

import argparse

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from matplotlib.figure import Figure

import hnca
from hnca.lab.training import TrainState, make_epoch

BITS, UNITS, BATCH = 3, 16, 50
METHODS = {  # by the color of their curves: the name, and passes for each example
    "C0": ("hnca+baseline", 1),
    "C1": ("reinforce+baseline", 1),
    "C2": ("loo-independent", 2),
    "C3": ("straight-through", 1),
}


def network(length: int) -> hnca.Graph:
    """Writes once, copies itself `length` times, and is read at the end."""
    k1, k2, k3 = jax.random.split(jax.random.key(0), 3)
    cell = hnca.Bernoulli(UNITS, UNITS, values=(-1, 1), key=k1)
    poor_copy = lambda weight: weight + 2.5 * jnp.eye(UNITS)
    cell = eqx.tree_at(lambda cell: cell.logits.weight, cell, replace_fn=poor_copy)
    step = lambda t: [hnca.Node(f"h@{t}", cell, parents=[f"h@{t - 1}"])]
    write = hnca.Node("h@-1", hnca.Bernoulli(BITS, UNITS, values=(-1, 1), key=k2), ["shown"])
    nodes, _ = hnca.unroll(step, length)
    read = hnca.LogProb("asked", hnca.Bernoulli(UNITS, BITS, key=k3), given=[f"h@{length - 1}"])
    return hnca.Graph([write, *nodes], [read])


def remembered(name: str, passes: int, length: int, steps: int) -> list[float]:
    """How many of the bits are remembered, on average over 100 steps of training each."""

    def task(key):
        bits = jax.random.bernoulli(key, 0.5, (BATCH // passes, BITS)).astype(jnp.float32)
        return {"shown": 2 * bits - 1, "asked": bits}, None

    estimator, optimizer = hnca.make_estimator(name), hnca.maximize(optax.adam(1e-2))
    epoch = make_epoch(estimator, optimizer, task, with_variance=False)
    state = TrainState.start(network(length), estimator, optimizer, jax.random.key(1))
    _, metrics = epoch(state, jax.random.split(jax.random.key(2), steps))
    values = metrics["value"].reshape(-1, min(steps, 100)).mean(1)
    return (BITS + values / jnp.log(2)).tolist()


def main() -> None:
    """Trains every method on every length, and draws what they remember."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default="memory.png", help="the figure")
    parser.add_argument("--steps", type=int, default=2000, help="of training")
    parser.add_argument("--lengths", type=int, nargs="+", default=[5, 10, 20])
    arguments = parser.parse_args()
    figure = Figure(figsize=(4 * len(arguments.lengths), 3.5), layout="constrained")
    panels = figure.subplots(1, len(arguments.lengths), sharey=True, squeeze=False)[0]
    for panel, length in zip(panels, arguments.lengths, strict=True):
        for color, (name, passes) in METHODS.items():
            curve = remembered(name, passes, length, arguments.steps)
            print(f"{length} steps, {name}: {curve[-1]:.3f} bits", flush=True)
            panel.plot(curve, color=color, label=f"{name} ({curve[-1]:.2f})")
        panel.set(title=f"over {length} steps", xlabel="100 steps of training", ylim=(-0.1, BITS))
        panel.grid(alpha=0.3)
        panel.legend(fontsize="small")
    panels[0].set_ylabel(f"bits remembered, of {BITS}")
    figure.savefig(arguments.out, dpi=80)


if __name__ == "__main__":
    main()
