"""`hnca generate`: a picture of what a trained VAE has learned."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from ..errors import UserError
from .usage import parse


def main(arguments: list[str]) -> None:
    """Draws the picture."""
    import tyro

    @dataclass(frozen=True)
    class Generate:
        """Draws samples from the prior, reconstructions of test images beside the originals, and
        what becomes of samples when one unit of the top layer is flipped."""

        run: Annotated[Path, tyro.conf.Positional]
        """Directory of the run."""
        out: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("digits.png")
        """The picture."""
        seed: int = 0
        """Of the samples."""
        data_dir: Path | None = None
        """Where to look for the data set first."""

    asked = parse(Generate, "hnca generate", arguments)
    from ..experiments import VAE
    from ..training import RunDirectory
    from ..training.generation import draw_generated
    from ..training.stored import read_run
    from .train import keep_compiled

    keep_compiled()
    experiment, data, graph, epoch = read_run(RunDirectory(asked.run), asked.data_dir)
    if not isinstance(experiment, VAE):
        raise UserError(f"{asked.run} is a {experiment.name}: only a vae can generate")
    title = f"{experiment.title} on {data.name}, after {epoch} epochs"
    draw_generated(graph, data, asked.out, seed=asked.seed, title=title)
    print(f"wrote {asked.out}")
