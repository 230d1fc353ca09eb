"""An experiment of one's own: a VAE whose hidden units are categorical, on patterns made here.

    hnca train examples/own_experiment.py:Patterns --epochs 20 --out runs/patterns
    hnca evaluate runs/patterns --task examples/own_experiment.py:Patterns
    hnca report runs/patterns -o runs/patterns-report

It resumes, sweeps (`task = "examples/own_experiment.py:Patterns"` in a plan) and reports like the
built-in ones. Its fields are its flags: `hnca train examples/own_experiment.py:Patterns --help`.
"""

from dataclasses import dataclass
from typing import ClassVar

import jax
import numpy as np

import hnca
from hnca.lab.experiments import AbstractExperiment, Data, Step


@dataclass(frozen=True)
class Patterns(AbstractExperiment):
    """A categorical VAE on noisy stripes, which are rows or columns of a small picture."""

    epochs: int = 20
    learning_rate: float = 1e-2
    side: int = 6
    """Pixels on a side of the picture."""
    units: int = 4
    """Hidden units."""
    categories: int = 3
    """Values that a hidden unit can take."""
    examples: int = 2000
    """Pictures to train on; a fifth as many to test on."""

    measure: ClassVar[str] = "elbo"

    def data(self, directory, say):
        """Every picture is a set of full rows, or of full columns, with some pixels flipped."""
        random = np.random.default_rng(0)
        count = self.examples + self.examples // 5
        lines = random.random((count, self.side, 1)) < 0.3
        pictures = np.broadcast_to(lines, (count, self.side, self.side))
        turned = np.where(random.random((count, 1, 1)) < 0.5, pictures, pictures.swapaxes(1, 2))
        flipped = turned ^ (random.random(turned.shape) < 0.02)
        x = flipped.reshape(count, -1).astype(np.float32)
        return Data({"x": x[: self.examples]}, {"x": x[self.examples :]}, name="stripes")

    def graph(self, data, key):
        """One hidden layer, a decoder, a prior of learned means, and the ELBO."""
        k1, k2, k3 = jax.random.split(key, 3)
        pixels, width = data.train["x"].shape[1], self.units * self.categories
        code = hnca.Categorical(pixels, self.categories, units=self.units, key=k1)
        prior = hnca.Categorical(0, self.categories, units=self.units, key=k3)
        return hnca.Graph(
            nodes=[hnca.Node("h", code, parents=["x"])],
            objective=[
                hnca.LogProb("x", hnca.Bernoulli(width, pixels, key=k2), given=["h"]),
                hnca.LogProb("h", prior),
                hnca.Entropy("h"),
            ],
        )

    def step(self, rows, key):
        """Some rows of the training data are the context; the objective is known."""
        return Step({"x": rows["x"]})

    def test(self, graph, row, key):
        """The bound of a test picture, by ten samples."""
        bound = hnca.bounds.multi_sample_bound(graph, key, 10, x=row["x"][None])[0]
        return {"test_bound": bound}
