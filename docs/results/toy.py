"""The toy problem of REBAR and RELAX: one Bernoulli unit, E[(b - t)^2] to be made large.

    python docs/results/toy.py

writes toy.png beside this file: the objective, and the log of the gradient's variance, against
steps of Adam on one sample each; means over seeds. Prints what is left to gain at the end.
"""

from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib
import optax

import hnca

matplotlib.use("Agg")
import matplotlib.pyplot as plt

COLORS = {
    "reinforce": "#770000",
    "reinforce+baseline": "#bb8800",
    "loo": "#e022b8",
    "disarm": "#552266",
    "muprop": "#1144dd",
    "double-cv": "#00aacc",
    "rebar": "#009977",
    "relax": "#22bb22",
    "straight-through": "#999999",
    "gumbel-softmax": "#555555",
    "reinmax": "#ff7700",
    "hnca": "#000000",
}
TARGETS = (0.45, 0.499)
SEEDS, MEASUREMENTS, STEPS = 10, 100, 100  # STEPS of training before each measurement
DRAWS = 1000  # in a measurement of the variance
OPTIMIZER = hnca.maximize(optax.adam(0.01))


def one_unit(target: float, key: jax.Array) -> hnca.Graph:
    """It fires half of the time at first. `x` is there for its batch axis alone."""
    layer = hnca.Bernoulli(0, 1, key=key)
    square = hnca.Function("square", lambda b, x: (b[..., 0] - target) ** 2, ["b", "x"])
    return hnca.Graph([hnca.Node("b", layer)], [square])


def train(name: str, target: float, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The probability to fire and the variance of its logit's gradient, as training goes on."""
    graph, estimator = one_unit(target, key), hnca.make_estimator(name)
    trained, static = eqx.partition(graph, eqx.is_inexact_array)

    def estimate(trained, state, key, batch):
        graph = eqx.combine(trained, static)
        draw, other = jax.random.split(key)
        sample = graph.sample(draw, x=jnp.zeros((batch, 1)))
        return estimator(graph, sample, state, key=other)

    def step(carry, key):
        trained, opt_state, state = carry
        found, state = estimate(trained, state, key, batch=1)
        grads = eqx.filter(found.grads, eqx.is_inexact_array)
        updates, opt_state = OPTIMIZER.update(grads, opt_state, trained)
        return (eqx.apply_updates(trained, updates), opt_state, state), None

    def measured(carry, key):
        steps, measure = jax.random.split(key)
        found, _ = estimate(carry[0], carry[2], measure, batch=DRAWS)
        probability = jax.nn.sigmoid(carry[0].nodes[0].layer.logits.bias[0])
        carry, _ = jax.lax.scan(step, carry, jax.random.split(steps, STEPS))
        return carry, (probability, jnp.var(found.credit["b"]))

    start = trained, OPTIMIZER.init(trained), estimator.init(graph, key=key)
    return jax.lax.scan(measured, start, jax.random.split(key, MEASUREMENTS))[1]


def main() -> None:
    """Trains all of them, and draws."""
    figure, axes = plt.subplots(2, 2, figsize=(11, 8), sharex=True, layout="constrained")
    keys = jax.random.split(jax.random.key(0), SEEDS)
    steps = STEPS * jnp.arange(MEASUREMENTS)
    for column, target in zip(axes.T, TARGETS, strict=True):
        best = (1 - target) ** 2
        for name, color in COLORS.items():
            run = jax.jit(jax.vmap(lambda key, name=name, target=target: train(name, target, key)))
            probability, variance = run(keys)
            value = jnp.mean(probability * best + (1 - probability) * target**2, axis=0)
            spread = jnp.mean(variance, axis=0)
            print(f"t={target} {name:20} to gain {best - value[-1]:.2e}  variance {spread[-1]:.1e}")
            style = "--" if not hnca.make_estimator(name).unbiased else "-"
            column[0].plot(steps, value, style, color=color, label=name, linewidth=1.4)
            seen = jnp.where(spread > 1e-14, jnp.log(spread), jnp.nan)
            column[1].plot(steps, seen, style, color=color, linewidth=1.4)
        column[0].axhline(best, color="#bbbbbb", linewidth=0.8)
        column[0].set(title=f"t = {target}", ylabel="E[(b - t)²]")
        column[1].set(xlabel="steps", ylabel="ln variance of the gradient")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=6, frameon=False)
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=110)


if __name__ == "__main__":
    main()
