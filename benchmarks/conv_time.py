"""How long a training step of the convolutional VAE takes, beside backpropagation.

    make bench

Alternating runs in one process, as in step_time.py; Adam is included in every step.
"""

import jax
import jax.numpy as jnp
from backpropagation import conv_vae_loss, conv_vae_parameters
from rich.console import Console
from rich.table import Table
from step_time import YARDSTICK, backpropagation, step_table, training
from timing import alternate

from hnca.estimators import make_estimator
from hnca.models import conv_vae

SHAPE, CHANNELS, BATCH, STEPS, ROUNDS = (28, 28), (16, 32), 50, 5, 10
METHODS = ("hnca", "hnca+baseline", "disarm", "loo", "reinforce+baseline")
BAR = 3.0  # the most that a step of hnca may take, as a multiple of backpropagation


def main() -> None:
    """Prints the times and the ratio, and fails if the bar is missed."""
    graph = conv_vae(SHAPE, CHANNELS, key=jax.random.key(0))
    bits = jax.random.bernoulli(jax.random.key(1), 0.2, (STEPS, BATCH, SHAPE[0] * SHAPE[1]))
    x, task = bits.astype(jnp.float32), lambda x: ({"x": x}, None)
    runs = {YARDSTICK: backpropagation(conv_vae_parameters(graph), conv_vae_loss, x)}
    runs |= {name: training(graph, make_estimator(name), task, x) for name in METHODS}
    hnca = make_estimator("hnca")
    runs["hnca, variance measured"] = training(graph, hnca, task, x, with_variance=True)
    timings, console = alternate(runs, ROUNDS, STEPS), Console()
    console.print(step_table(f"conv-vae {CHANNELS}, batch {BATCH}", timings))
    ratio = timings.ratio("hnca", YARDSTICK)
    verdict = "ok" if ratio <= BAR else "MISSED"
    bar = Table("figure", "measured", "at most", "", title="The bar")
    bar.add_row(f"conv-vae: hnca / {YARDSTICK}", f"{ratio:.2f}", f"{BAR:g}", verdict)
    console.print(bar)
    raise SystemExit(ratio > BAR)


if __name__ == "__main__":
    main()
