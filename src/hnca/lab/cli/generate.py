"""`hnca generate`: a picture of what a trained VAE has learned."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from ..errors import UserError
from .usage import parse


@dataclass(frozen=True)
class Generate:
    """Draws samples from the prior, reconstructions of test images beside the originals, and what
    becomes of samples when one unit of the top layer is flipped, as one picture."""

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """Directory of the run."""
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("digits.png")
    """The picture."""
    seed: int = 0
    """Of the samples."""
    data_dir: Path | None = None
    """Where to look for the data set first."""


def main(arguments: list[str]) -> None:
    """Draws the picture."""
    asked = parse(Generate, "hnca generate", arguments)
    from ..experiments import VAE
    from ..files import check_picture
    from ..training import RunDirectory, keep_compiled
    from ..training.generation import draw_generated
    from ..training.stored import read_run

    check_picture(asked.out)
    keep_compiled()
    stored = read_run(RunDirectory(asked.run), asked.data_dir)
    if not isinstance(stored.experiment, VAE):
        raise UserError(f"{asked.run} is a {stored.experiment.name}: only a vae can generate")
    title = f"{stored.experiment.title} on {stored.data.name}, after {stored.epoch} epochs"
    draw_generated(stored.graph, stored.data, asked.out, seed=asked.seed, title=title)
    print(f"wrote {asked.out}")
