"""`hnca demo`: a minute of training."""

from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import UserError
from ..experiments import Bandit
from .usage import parse


@dataclass(frozen=True)
class Demo:
    """Trains the paper's 3-layer bandit for ten epochs: three layers of 200 stochastic units name
    digits, and learn from nothing but whether they were right. About a minute."""

    out: Path = Path("runs/demo")
    """Directory of the run."""


def main(arguments: list[str]) -> None:
    """Runs the demo on MNIST, or on glyphs where it cannot be had."""
    demo = parse(Demo, "hnca demo", arguments)
    from ..data import load
    from .train import run

    experiment = Bandit.quick()
    try:
        data = load(experiment.dataset)
    except UserError as error:
        print(f"{error}\nMNIST cannot be had here, so the demo draws its own digits: glyphs")
        experiment = replace(experiment, dataset="glyphs")
        data = load("glyphs")
    command = f"hnca train bandit --preset quick --dataset {experiment.dataset} --out {demo.out}"
    run(experiment, data, demo.out, command)
    print("\nWhat to try next:")
    print("  the same by REINFORCE, and compare the curves:")
    print(
        f"    hnca train bandit --preset quick --dataset {experiment.dataset} "
        "--estimator reinforce+baseline"
    )
    print("  the whole experiment of the paper (100 epochs):")
    print("    hnca train bandit --layers 3")
