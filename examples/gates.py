"""A network and an objective of one's own: stochastic gates that choose which inputs to read.

    hnca train gates.py:Gates --out runs/gates

Every input has a gate that is open or shut. An open gate costs a little, and a classifier reads
what the open gates let through. Few of the inputs say anything about the label: the gates have to
find out which.
"""

from dataclasses import dataclass
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import hnca
from hnca.lab.experiments import AbstractExperiment, Data, Step

INPUTS, USEFUL = 12, 3


class ThroughGates(eqx.Module):
    """A linear classifier of the inputs whose gates are open."""

    affine: hnca.Affine

    def __call__(self, gates_and_x):
        gates, x = jnp.split(gates_and_x, 2)
        return self.affine(gates * x)


@dataclass(frozen=True)
class Gates(AbstractExperiment):
    """Stochastic gates before a classifier, with a price for each that is open."""

    epochs: int = 20
    learning_rate: float = 1e-2
    price: float = 0.05
    """Of an open gate, in nats."""

    measure: ClassVar[str] = "objective"

    def data(self, directory, say):
        """The label is the sign of the sum of the first few inputs."""
        x = np.random.default_rng(0).normal(size=(2500, INPUTS)).astype(np.float32)
        y = (x[:, :USEFUL].sum(axis=1) > 0).astype(np.float32)[:, None]
        return Data({"x": x[:2000], "y": y[:2000]}, {"x": x[2000:], "y": y[2000:]}, name="gates")

    def graph(self, data, key):
        """A gate for each input; the log-likelihood of the label, less the price."""
        k1, k2 = jax.random.split(key)
        reader = ThroughGates(hnca.Affine(INPUTS, 1, key=k2))
        return hnca.Graph(
            nodes=[hnca.Node("gates", hnca.Bernoulli(0, INPUTS, key=k1))],
            objective=[
                hnca.LogProb("y", hnca.Bernoulli(2 * INPUTS, 1, logits=reader), ["gates", "x"]),
                hnca.Function("price", lambda gates: -self.price * gates.sum(-1), ["gates"]),
            ],
        )

    def step(self, rows, key):
        """Some rows of the training data; the objective is known, so no world is asked."""
        return Step({"x": rows["x"], "y": rows["y"]})

    def test(self, graph, row, key):
        """The objective on a test row, and how many gates are open."""
        sample = graph.sample(key, x=row["x"][None], y=row["y"][None])
        value, gates = graph.value(sample)[0], sample["gates"][0]
        return {"test_objective": value, "test_open_gates": gates.sum()}
