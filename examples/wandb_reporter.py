"""What is measured in each epoch, for Weights & Biases.

    pip install wandb
    hnca train bandit --preset quick --reporter examples/wandb_reporter.py:Wandb

Without an account, `WANDB_MODE=offline` before the command keeps everything in ./wandb.
A sweep takes the same flag. A service of your own needs no more than these three methods.
"""

import hashlib
import os
from dataclasses import asdict

import wandb  # pyright: ignore[reportMissingImports]


class Wandb:
    """A reporter: each run of hnca is a run there, of the same name."""

    def __init__(self):
        self._there = {}  # by the directory of the run

    def begin(self, run, data):
        """A directory is the same run there, whenever it goes on. Epochs that it was not told of,
        since the run was without it, or was killed, are made up for."""
        path = run.directory.path
        there = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "hnca"),
            name=path.name,
            id=hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16],
            resume="allow",
            reinit="create_new",  # runs side by side
            config=asdict(run.experiment) | {"data": data.name},
        )
        self._there[path] = there
        for entry in run.entries:
            if entry["epoch"] >= there.step:
                there.log(entry, step=entry["epoch"])

    def epoch(self, run, entry):
        """What was measured, by epochs."""
        self._there[run.directory.path].log(entry, step=entry["epoch"])

    def end(self, run, summary):
        """The last test; and whether the run came to its end."""
        there = self._there.pop(run.directory.path)
        if summary is not None:
            there.summary.update(summary["final"])
        there.finish(exit_code=0 if summary is not None else 1)
