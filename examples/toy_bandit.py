"""A contextual bandit that learns in seconds: HNCA beside REINFORCE.

The world shows 24 noisy bits, one of eight patterns with some bits flipped, and rewards the agent
for naming the pattern. The agent is three layers of stochastic units; nothing tells it which unit
was right.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

import hnca

BITS, PATTERNS, UNITS = 24, 8, 32
BATCH, STEPS_PER_EPOCH, EPOCHS = 50, 100, 40
METHODS = {
    "HNCA": hnca.HNCA(),
    "HNCA with baseline": hnca.HNCA(baseline=hnca.MovingAverage(0.99)),
    "REINFORCE": hnca.Reinforce(),
    "REINFORCE with baseline": hnca.Reinforce(baseline=hnca.MovingAverage(0.99)),
}


def make_policy(key) -> hnca.Graph:
    """Two hidden layers of units with values -1 and 1, and a choice among the patterns."""
    k1, k2, k3 = jax.random.split(key, 3)
    return hnca.Graph(
        nodes=[
            hnca.Node("h1", hnca.Bernoulli(BITS, UNITS, values=(-1, 1), key=k1), parents=["x"]),
            hnca.Node("h2", hnca.Bernoulli(UNITS, UNITS, values=(-1, 1), key=k2), parents=["h1"]),
            hnca.Node("action", hnca.Categorical(UNITS, PATTERNS, key=k3), parents=["h2"]),
        ],
        objective=[hnca.Reward("reward", parents=["action"])],
    )


def show_patterns(key):
    """A batch of noisy patterns and their numbers."""
    patterns = jax.random.bernoulli(jax.random.key(0), 0.5, (PATTERNS, BITS))
    k1, k2 = jax.random.split(key)
    y = jax.random.randint(k1, (BATCH,), 0, PATTERNS)
    flipped = jax.random.bernoulli(k2, 0.1, (BATCH, BITS))
    return (patterns[y] ^ flipped).astype(jnp.float32), y


def make_epoch(estimator: hnca.AbstractEstimator, optimizer):
    """One compiled program for an epoch of training steps."""

    def step(carry, key):
        policy, opt_state, state = carry
        k1, k2 = jax.random.split(key)
        x, y = show_patterns(k1)
        sample = policy.sample(k2, x=x)
        reward = (sample["action"] == y).astype(jnp.float32)
        estimate, state = estimator(policy, sample, state, reward=reward)
        variance = mean_variance(policy, sample, estimate)
        updates, opt_state = optimizer.update(estimate.grads, opt_state)
        policy = eqx.apply_updates(policy, updates)
        return (policy, opt_state, state), (reward.mean(), variance)

    return eqx.filter_jit(lambda carry, keys: jax.lax.scan(step, carry, keys))


def mean_variance(policy, sample, estimate):
    """Mean gradient variance over all parameters."""
    variances, counts = (
        hnca.gradient_variance(policy, sample, estimate),
        hnca.parameter_counts(policy),
    )
    total = sum((variances[name] * counts[name] for name in counts), jnp.zeros(()))
    return total / sum(counts.values())


def train(estimator: hnca.AbstractEstimator, advance) -> tuple[float, float]:
    """Reward and gradient variance over the last epoch."""
    optimizer = hnca.maximize(optax.adam(1e-3))
    policy = make_policy(jax.random.key(1))
    opt_state = optimizer.init(policy)  # pyright: ignore[reportArgumentType]
    carry = policy, opt_state, estimator.init(policy)
    epoch = make_epoch(estimator, optimizer)
    rewards = variances = jnp.zeros(1)
    for number in range(EPOCHS):
        keys = jax.random.split(jax.random.key(100 + number), STEPS_PER_EPOCH)
        carry, (rewards, variances) = epoch(carry, keys)
        advance(float(rewards.mean()))
    return float(rewards.mean()), float(variances.mean())


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
