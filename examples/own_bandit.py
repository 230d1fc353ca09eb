"""A simulator as the world: there is nothing to load, and nothing to differentiate.

    hnca train examples/own_bandit.py:Thermostat --epochs 10 --out runs/thermostat

A room has a temperature; stochastic units choose how much to heat. The world answers with a noisy
reward, which is the higher the closer the room comes to the temperature that is wanted.
"""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp

import hnca
from hnca.lab.experiments import AbstractExperiment, Data, Step

LEVELS = 5  # of heating


def comfort(temperature, wanted, level):
    """One less what is missing or too much, when each level heats by half a degree."""
    return 1 - jnp.abs(temperature + level / 2 - wanted)


@dataclass(frozen=True)
class Thermostat(AbstractExperiment):
    """A policy of stochastic units that heats a simulated room."""

    epochs: int = 10
    learning_rate: float = 1e-2
    units: int = 16
    """Hidden units in each of two layers."""
    noise: float = 0.1
    """Of the reward."""

    measure: ClassVar[str] = "comfort"

    def data(self, directory, say):
        """An epoch is 5,000 rooms, a test is 1,000."""
        return Data.simulated(train=5000, test=1000)

    def graph(self, data, key):
        """Two hidden layers, and the level of heating as action."""
        k1, k2, k3 = jax.random.split(key, 3)
        hidden = lambda inputs, key: hnca.Bernoulli(inputs, self.units, values=(-1, 1), key=key)
        return hnca.Graph(
            nodes=[
                hnca.Node("h1", hidden(2, k1), parents=["room"]),
                hnca.Node("h2", hidden(self.units, k2), parents=["h1"]),
                hnca.Node("level", hnca.Categorical(self.units, LEVELS, key=k3), parents=["h2"]),
            ],
            objective=[hnca.Reward("reward", parents=["level"])],
        )

    def step(self, rows, key):
        """New rooms, and a world that answers. Cold rooms count twice."""
        room_key, noise_key = jax.random.split(key)
        rooms = jax.random.uniform(room_key, (len(rows["number"]), 2)) * jnp.array([[1.0, 2.0]])
        noise = self.noise * jax.random.normal(noise_key, (len(rooms),))
        answer = lambda sample: comfort(rooms[:, 0], rooms[:, 1], sample["level"]) + noise
        return Step({"room": rooms}, answer, weights=jnp.where(rooms[:, 0] < 0.5, 2.0, 1.0))

    def test(self, graph, row, key):
        """What a room comes to, without the noise."""
        room_key, unit_key = jax.random.split(key)
        room = jax.random.uniform(room_key, (1, 2)) * jnp.array([[1.0, 2.0]])
        level = graph.sample(unit_key, room=room)["level"]
        return {"test_comfort": comfort(room[:, 0], room[:, 1], level)[0]}
