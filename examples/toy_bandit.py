"""A contextual bandit that learns in seconds: HNCA beside REINFORCE.

The world shows 24 noisy bits, one of eight patterns with some bits flipped, and rewards the agent
for naming the pattern. The agent is three layers of stochastic units; nothing tells it which unit
was right.
"""

import jax
import jax.numpy as jnp
import optax
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

import hnca
from hnca.lab.training import TrainState, make_epoch
from hnca.models import bandit_policy

BITS, PATTERNS, UNITS = 24, 8, 32
BATCH, STEPS_PER_EPOCH, EPOCHS = 50, 100, 40
METHODS = {
    "HNCA": hnca.HNCA(),
    "HNCA with baseline": hnca.HNCA(baseline=hnca.MovingAverage(0.99)),
    "REINFORCE": hnca.Reinforce(),
    "REINFORCE with baseline": hnca.Reinforce(baseline=hnca.MovingAverage(0.99)),
}


def show_patterns(key):
    """One step's task: a batch of noisy patterns, and a reward for naming them."""
    patterns = jax.random.bernoulli(jax.random.key(0), 0.5, (PATTERNS, BITS))
    k1, k2 = jax.random.split(key)
    y = jax.random.randint(k1, (BATCH,), 0, PATTERNS)
    flipped = jax.random.bernoulli(k2, 0.1, (BATCH, BITS))
    x = (patterns[y] ^ flipped).astype(jnp.float32)
    return {"x": x}, lambda sample: sample["action"] == y


def train(estimator: hnca.AbstractEstimator, advance) -> tuple[float, float]:
    """Reward and gradient variance, a mean over all parameters, in the last epoch."""
    policy = bandit_policy(BITS, [UNITS, UNITS], PATTERNS, key=jax.random.key(1))
    counts = hnca.parameter_counts(policy)
    optimizer = hnca.maximize(optax.adam(1e-3))
    state = TrainState.start(policy, estimator, optimizer, jax.random.key(2))
    epoch = make_epoch(estimator, optimizer, show_patterns)
    reward = variance = float("nan")
    for number in range(EPOCHS):
        keys = jax.random.split(jax.random.key(100 + number), STEPS_PER_EPOCH)
        state, metrics = epoch(state, keys)
        reward = float(metrics["value"].mean())
        totals = [count * metrics[f"variance/{name}"].mean() for name, count in counts.items()]
        variance = float(sum(totals) / sum(counts.values()))
        advance(reward)
    return reward, variance


def main() -> None:
    """Trains the policy by each method and prints what they reached."""
    console = Console()
    table = Table(title=f"After {EPOCHS * STEPS_PER_EPOCH} steps (chance: {1 / PATTERNS:.3f})")
    table.add_column("method")
    table.add_column("reward", justify="right")
    table.add_column("ln gradient variance", justify="right")
    columns = TextColumn("{task.description:24}"), BarColumn(), TimeRemainingColumn()
    with Progress(*columns, TextColumn("reward {task.fields[reward]:.3f}"), console=console) as bar:
        for name, estimator in METHODS.items():
            task = bar.add_task(name, total=EPOCHS, reward=0.0)
            advance = lambda reward, task=task: bar.update(task, advance=1, reward=reward)
            reward, variance = train(estimator, advance)
            table.add_row(name, f"{reward:.3f}", f"{jnp.log(variance):.2f}")
    console.print(table)
    console.print("Next: read examples/toy_bandit.py, and the README's first example.")


if __name__ == "__main__":
    main()
