"""A trained run, read back: which of the gates of gates.py are open?"""

from pathlib import Path

import jax
import jax.numpy as jnp
from gates import Gates

from hnca.lab.training import RunDirectory, read_trained

run = read_trained(RunDirectory(Path("runs/gates")), Gates)
logits = run.graph["gates"].layer(jnp.zeros((1, 0)))[0]  # of a layer without inputs
print(f"after {run.epoch} epochs:", *(f"{p:.2f}" for p in jax.nn.sigmoid(logits)))
