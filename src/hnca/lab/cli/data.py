"""`hnca data`: fetch, list and show data sets."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from ..settings import Flag
from .usage import menu, parse

MOST_COLUMNS = 500  # a picture of 50,000 pixels across: beyond it, nothing will show it

Name = Annotated[str, Flag(positional=True, metavar="NAME")]
Directory = Annotated[Path | None, Flag(metavar="DIRECTORY")]


@dataclass(frozen=True)
class Fetch:
    """Get a data set onto this machine, so that later commands need no network."""

    dataset: Name
    """mnist, fashion-mnist, glyphs, or a directory with the four idx files."""
    data_dir: Directory = None
    """Where to look first, instead of HNCA_DATA_DIR: here or in a subdirectory NAME."""

    def run(self) -> None:
        """Says what it tries, and what came of it."""
        from ..data import load

        dataset = load(self.dataset, self.data_dir, say=print)
        counts = f"{len(dataset.train_labels):,} + {len(dataset.test_labels):,} images"
        print(f"{dataset.name}: {counts}, from {dataset.source}")
        print(f"fingerprint {dataset.fingerprint}")


@dataclass(frozen=True)
class List:
    """List the data sets that have a name, and where they are now."""

    data_dir: Directory = None
    """Where to look first, instead of HNCA_DATA_DIR."""

    def run(self) -> None:
        """Prints a table."""
        from rich.console import Console
        from rich.table import Column, Table

        from ..data import NAMES, whereabouts
        from ..data.cache import cache_directory
        from ..data.sources import KNOWN

        where_it_is = Column("where it is", overflow="fold")
        table = Table("name", "images", "pixels", "what it is", where_it_is)
        for name in NAMES:
            about = KNOWN[name].about if name in KNOWN else "digits of many fonts"
            missing = "not here yet: fetched when needed"
            if name == "glyphs":
                missing = "built in: drawn when needed"
            where = whereabouts(name, self.data_dir) or missing
            table.add_row(name, "60,000 + 10,000", "28x28", about, where)
        console = Console()
        console.print(table)
        console.print(f"the user cache: {cache_directory()}", soft_wrap=True, highlight=False)


@dataclass(frozen=True)
class Show:
    """Draw examples of every class of a data set as a picture."""

    dataset: Name
    """mnist, fashion-mnist, glyphs, or a directory with the four idx files."""
    out: Annotated[Path | None, Flag(short="-o", metavar="FILE")] = None
    """The file to write, in the format of its ending; NAME.png if not given."""
    columns: int = 16
    """Examples of each class."""
    data_dir: Directory = None
    """Where to look first, instead of HNCA_DATA_DIR: here or in a subdirectory NAME."""

    def run(self) -> None:
        """Writes the picture."""
        from ..data import draw_examples, load
        from ..errors import UsageError
        from ..files import check_picture

        if not 1 <= self.columns <= MOST_COLUMNS:
            raise UsageError(f"--columns must be from 1 to {MOST_COLUMNS}, not {self.columns}")
        if self.out:
            check_picture(self.out)
        dataset = load(self.dataset, self.data_dir, say=print)
        out = self.out or Path(f"{dataset.name}.png")
        draw_examples(dataset, out, self.columns)
        print(f"wrote {out}")


COMMANDS = {"fetch": Fetch, "list": List, "show": Show}
EPILOG = """\
What is fetched or drawn is kept in the user cache (or in HNCA_CACHE_DIR):
  hnca data fetch mnist
  hnca data show glyphs -o glyphs.png"""


def main(arguments: list[str]) -> None:
    """Runs `hnca data` with these arguments."""
    about = "Data sets: mnist, fashion-mnist, glyphs, or a directory with the four idx files."
    summaries = {name: command.__doc__ or "" for name, command in COMMANDS.items()}
    name, rest = menu("hnca data", about, summaries, EPILOG, arguments)
    if name:
        parse(COMMANDS[name], f"hnca data {name}", rest).run()
