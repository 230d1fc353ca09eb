"""`hnca demo`: a minute of training."""

import shlex
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import UserError
from ..experiments import Bandit
from .usage import parse, program


@dataclass(frozen=True)
class Demo:
    """Trains the paper's 3-layer bandit for ten epochs: three layers of 200 stochastic units name
    digits, and learn from nothing but whether they were right. About a minute."""

    out: Path | None = None
    """Directory of the run; `runs/demo-` and the name of the data set by default."""


def main(arguments: list[str]) -> None:
    """Runs the demo on MNIST, or on glyphs where it cannot be had."""
    demo = parse(Demo, "hnca demo", arguments)
    from .train import run

    experiment = Bandit(**Bandit.presets["quick"])
    try:
        data = experiment.data(None, print)
    except UserError:  # each source has said why
        print("MNIST cannot be had here, so the demo draws its own digits: glyphs")
        experiment = replace(experiment, dataset="glyphs")
        data = experiment.data(None, print)
    out = demo.out or Path("runs") / f"demo-{experiment.dataset}"
    again = f"{program()} train bandit --preset quick --dataset {experiment.dataset}"
    run({out: experiment}, data, f"{again} --out {shlex.quote(str(out))}")
    print(f"""
What to try next:
  the same by REINFORCE, and compare the curves:
    {again} --estimator reinforce+baseline
  the paper's whole experiment, 100 epochs:
    {program()} train bandit --layers 3
  a discrete variational autoencoder, and what it dreams of:
    {program()} train vae --preset quick --dataset {experiment.dataset} --out runs/vae
    {program()} generate runs/vae -o digits.png""")
