"""What a page needs of a table: cells with a text to read and a value to sort by."""

from typing import NamedTuple

from .statistics import Interval

MISSING = "-"


class Cell(NamedTuple):
    """A cell of a table."""

    text: str
    value: float | int | str | None = None  # None: by the text
    links: tuple[tuple[str, str], ...] = ()  # words and addresses
    style: str = ""
    color: str = ""  # of a swatch before the text

    @property
    def key(self) -> float | int | str:
        """What to sort by."""
        return self.text if self.value is None else self.value


class Table(NamedTuple):
    """A table with a title."""

    title: str
    columns: list[str]
    rows: list[list[Cell]]
    note: str = ""


def number(value: float | int | None, shown: str = "") -> Cell:
    """A number, or the lack of one."""
    if value is None:
        return Cell(MISSING, "", style="number")
    return Cell(shown or f"{value}", value, style="number")


def spread(interval: Interval | None, decimals: int) -> Cell:
    """A mean with its confidence interval."""
    if interval is None:
        return number(None)
    return number(interval.mean, interval.shown(decimals))
