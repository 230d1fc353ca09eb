"""Who gets what is measured, besides the files of a run: flags of `hnca train` and `hnca sweep`."""

from dataclasses import dataclass
from typing import Annotated

from ..imported import is_named_class, located
from ..settings import Flag


@dataclass(frozen=True)
class Reports:
    """Who else gets the metrics of each epoch; no matter to what comes out."""

    tensorboard: bool = False
    """Write them for TensorBoard too, with samples of a VAE: `tensorboard --logdir runs` shows them
    while they grow."""
    reporter: Annotated[tuple[str, ...], Flag(metavar="FILE:CLASS")] = ()
    """Reporters of your own, as in examples/wandb_reporter.py. The file is imported: name only one
    that you trust."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of the reporters, as any process finds them."""
        own = [located(name) if is_named_class(name) else name for name in self.reporter]
        return (*(["tensorboard"] if self.tensorboard else []), *own)
