"""A policy with memory, made of stochastic units, in a world that answers in time.

    python examples/corridor.py --out docs/corridor.png

A sign at the start of a corridor tells the way to turn at its end: worth 1, the other way -1, and
every other step -0.05. Each unit of `h` is an agent: it sees the cell, and `h` of a step before.

An episode is played with the graph's layers, then shown to the graph by `observe`. An action acts
on later rewards through the world, so a reward names all actions so far, and the units of each
step get credit for what comes after.
"""

import argparse

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from matplotlib.figure import Figure

import hnca

CELLS, TIME, UNITS, BATCH = 3, 6, 12, 50
FORWARD, LEFT, RIGHT = range(3)


def network(key) -> hnca.Graph:
    """What the units see, remember and do at each time."""
    seen = CELLS + 1 + 2  # which cell, and the sign
    memory = hnca.Bernoulli(seen + UNITS, UNITS, values=(-1, 1), key=key)
    choice = hnca.Categorical(UNITS, 3, key=jax.random.fold_in(key, 1))

    def step(t):
        return [
            hnca.Node(f"h@{t}", memory, parents=[f"seen@{t}", f"h@{t - 1}"]),
            hnca.Node(f"do@{t}", choice, parents=[f"h@{t}"]),
            hnca.Reward(f"r@{t}", parents=[f"do@{s}" for s in range(t + 1)]),
        ]

    return hnca.Graph(*hnca.unroll(step, TIME))


def play(graph: hnca.Graph, key) -> tuple[hnca.Sample, dict]:
    """A batch of episodes, as a sample of the graph, and the rewards by their names."""
    memory, choice = graph.layer("h@0"), graph.layer("do@0")
    sign = jax.random.randint(jax.random.fold_in(key, TIME), (BATCH,), LEFT, RIGHT + 1)

    def step(state, key):
        (cell, over, h), (k1, k2) = state, jax.random.split(key)
        shown = jax.nn.one_hot(sign - LEFT, 2) * (cell == 0)[:, None]
        seen = jnp.concatenate([jax.nn.one_hot(cell, CELLS + 1), shown], axis=1)
        h = memory.sample(memory(jnp.concatenate([seen, h], axis=1)), k1)
        do = choice.sample(choice(h), k2)
        turned = ~over & (cell == CELLS) & (do != FORWARD)
        reward = jnp.where(turned, jnp.where(do == sign, 1.0, -1.0), jnp.where(over, 0, -0.05))
        cell = jnp.where(do == FORWARD, jnp.minimum(cell + 1, CELLS), cell)
        return (cell, over | turned, h), {"seen": seen, "h": h, "do": do, "r": reward}

    start = jnp.zeros(BATCH, int), jnp.zeros(BATCH, bool), jnp.zeros((BATCH, UNITS))
    _, episode = jax.lax.scan(step, start, jax.random.split(key, TIME))
    steps = hnca.by_time(**{name: jnp.swapaxes(each, 0, 1) for name, each in episode.items()})
    rewards = {f"r@{t}": steps.pop(f"r@{t}") for t in range(TIME)}
    return graph.observe(**steps, **{"h@-1": start[-1]}), rewards


def returns(estimator: hnca.AbstractEstimator, steps: int, key) -> jax.Array:
    """The mean return of a batch of episodes at every step of training."""
    graph, optimizer = network(key), hnca.maximize(optax.adam(5e-3))

    def step(carry, key):
        graph, opt_state, state = carry
        sample, rewards = play(graph, key)
        estimate, state = estimator(graph, sample, state, reward=rewards)
        updates, opt_state = optimizer.update(eqx.filter(estimate.grads, eqx.is_array), opt_state)
        return (eqx.apply_updates(graph, updates), opt_state, state), estimate.value.mean()

    carry = graph, optimizer.init(eqx.filter(graph, eqx.is_array)), estimator.init(graph)
    return jax.lax.scan(step, carry, jax.random.split(key, steps))[1]


def main() -> None:
    """Trains three policies by each method, side by side, and draws what they earn."""
    (parser := argparse.ArgumentParser()).add_argument("--out", default="corridor.png")
    parser.add_argument("--steps", type=int, default=1500)
    out, steps = vars(parser.parse_args()).values()
    keys = jax.random.split(jax.random.key(0), 3)
    axes = (figure := Figure(layout="constrained")).subplots()
    axes.set(xlabel="50 steps of training", ylabel="return of an episode")
    for color, name in (("C0", "hnca+baseline"), ("C1", "reinforce+baseline")):
        run = jax.vmap(eqx.Partial(returns, hnca.make_estimator(name), steps))
        points = jax.jit(run)(keys).reshape(len(keys), -1, min(steps, 50)).mean(2)
        print(f"{name}: {points[:, -1]} at the end; the best is 0.85")
        axes.plot(points.T, color, label=[name, None, None])
    axes.legend()
    figure.savefig(out, dpi=80)


if __name__ == "__main__":
    main()
