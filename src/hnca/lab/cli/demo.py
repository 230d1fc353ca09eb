"""`hnca demo`: the same network trained by HNCA and by REINFORCE, side by side."""

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from ..errors import UserError
from ..experiments import Bandit, Images
from ..settings import Flag
from ..words import counted
from .usage import parse, program

METHODS = {"HNCA": "hnca+baseline", "REINFORCE": "reinforce+baseline"}
SHOWN = 24  # digits that the networks answer at the end


@dataclass(frozen=True)
class Demo:
    """Trains the same network twice, side by side: by HNCA and by REINFORCE. Three layers of 200
    stochastic units name digits, and learn from nothing but whether they were right. About a minute
    on two cores, then a picture of what came of it. The same command goes on where it was
    interrupted."""

    out: Annotated[Path | None, Flag(short="-o", metavar="DIRECTORY")] = None
    """Directory of the two runs and the picture; `runs/demo/` and the name of the data set by
    default."""
    epochs: int = 8
    """How often to go through the digits."""


def main(arguments: list[str]) -> None:
    """Runs the demo on MNIST, or on glyphs where it cannot be had."""
    demo = parse(Demo, "hnca demo", arguments)
    experiment = Bandit(epochs=demo.epochs, learning_rate=1e-3)
    experiment.check()
    try:
        data = experiment.data(None, print)
    except UserError:  # each source has said why
        print("MNIST cannot be had here, so the demo draws its own digits: glyphs")
        experiment = replace(experiment, dataset="glyphs")
        data = experiment.data(None, print)
    out = demo.out or Path("runs") / "demo" / experiment.dataset
    compare(experiment, data, out, f"{program()} {shlex.join(['demo', *arguments])}")
    print(f"""
What to try next:
  the same in TensorBoard, while it trains (pip install tensorboard tensorboardX):
    {program()} train bandit --preset quick --tensorboard
  the paper's whole experiment, 100 epochs:
    {program()} train bandit --layers 3
  a discrete variational autoencoder, and what it dreams of:
    {program()} train vae --preset quick --dataset {experiment.dataset} --out runs/vae
    {program()} generate runs/vae -o digits.png""")


def compare(experiment: Bandit, data: Images, out: Path, command: str) -> None:
    """Trains the network by both methods, says how well it does by each, and draws it."""
    from ..sweep import PlannedRun

    runs = {
        label: PlannedRun(method, replace(experiment, estimator=method))
        for label, method in METHODS.items()
    }
    print(
        f"Three layers of {experiment.units} units that fire by chance learn to name the digits of "
        f"{data.name}.\nAll they are told is whether they were right. Two ways to learn from that, "
        f"side by side:",
        flush=True,
    )
    _train(runs, out, command)
    _conclude(runs, data, out)


def _train(runs: dict, out: Path, command: str) -> None:
    """Does what is missing of the two runs, at the same time."""
    from .demo_chart import show_curves
    from .sweep import Workplace, carry_out

    place = Workplace(out, None, ("local", len(runs), None))
    found = place.look(list(runs.values()))
    if unusable := [there.why for _, there in found if there.state == "unusable"]:
        raise UserError(unusable[0])
    todo = [run for run, there in found if there.state != "done"]
    if not todo:
        print(f"Both were trained already, in {out}: delete it to begin anew.")
    shown = lambda scheduler, out, done: show_curves(runs, out)
    failed = carry_out(todo, place, len(runs) - len(todo), command, shown) if todo else {}
    for run, message in failed.items():
        raise UserError(f"{run.name}: {message}")


def _conclude(runs: dict, data: Images, out: Path) -> None:
    """Says what came of it in a sentence, and in answers; and draws both."""
    from ..sweep import final_metrics
    from .demo_picture import answers, draw_demo, print_answers

    right = {label: final_metrics(run, out)["test_accuracy"] for label, run in runs.items()}
    [hnca, reinforce] = [f"{share:.1%}" for share in right.values()]
    [epochs, *_] = {run.experiment.epochs for run in runs.values()}
    asked = {label: answers(out / run.name, data, SHOWN) for label, run in runs.items()}
    print_answers(asked, data.test["label"][:SHOWN])
    print(
        f"\nAfter {counted(epochs, 'epoch')}, the network that HNCA trained names {hnca} of the "
        f"test digits right,\nand the one that REINFORCE trained {reinforce}. Network, digits and "
        f"learning rate are the same:\nwhat differs is how the units share out the credit."
    )
    picture = out / "demo.png"
    draw_demo(runs, asked, data, out, picture)
    print(f"picture  {picture}")
