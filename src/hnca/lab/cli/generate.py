"""`hnca generate`: a picture of what a trained VAE has learned."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from ..errors import UserError
from ..settings import Flag
from ..words import counted
from .usage import parse, read_run


@dataclass(frozen=True)
class Generate:
    """Draws samples from the prior, reconstructions of test images beside the originals, and what
    becomes of samples when one unit of the top layer is flipped, as one picture."""

    run: Annotated[Path, Flag(positional=True, metavar="RUN")]
    """Directory of the run."""
    out: Annotated[Path, Flag(short="-o", metavar="FILE")] = Path("digits.png")
    """The picture."""
    seed: int = 0
    """Of the samples."""
    task: Annotated[str | None, Flag(metavar="FILE:CLASS")] = None
    """The experiment, if it is one of your own: a subclass of one of the VAEs."""
    data_dir: Annotated[Path | None, Flag(metavar="DIRECTORY")] = None
    """Where to look for the data set first."""


def main(arguments: list[str]) -> None:
    """Draws the picture."""
    asked = parse(Generate, "hnca generate", arguments)
    from ..experiments import AbstractVAE, Images
    from ..files import check_picture
    from ..training import RunDirectory, keep_compiled
    from ..training.generation import draw_generated

    check_picture(asked.out)
    keep_compiled()
    trained = read_run(RunDirectory(asked.run), asked.task, asked.data_dir)
    if not (isinstance(trained.experiment, AbstractVAE) and isinstance(trained.data, Images)):
        raise UserError(f"{asked.run} is a {trained.experiment.title}: only a vae can generate")
    after = f"after {counted(trained.epoch, 'epoch')}"
    title = f"{trained.experiment.title} on {trained.data.name}, {after}"
    draw_generated(trained.graph, trained.data, asked.out, seed=asked.seed, title=title)
    print(f"wrote {asked.out}")
