"""Two curves that grow in the terminal; plain lines where there is none."""

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.text import Text

from ..report.labels import color
from ..sweep import Event, PlannedRun, latest_epochs
from ..words import counted
from .progress import clock

Curve = Sequence[
    tuple[int, float]
]  # epochs, and the share of test digits that was right after them

HEIGHT, WIDTH = 12, 64  # letters, at most
DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # of a Braille letter, row by row
BRAILLE = 0x2800
PLAIN = "*o+x"  # where the terminal has no Braille: one for each curve


class CurveLines:
    """A line for each epoch of each run: for logs."""

    def __init__(self, runs: Mapping[str, PlannedRun], out: Path):
        self._runs, self._out = runs, out
        self._told = {label: _done(curve) for label, curve in self._curves().items()}

    def __enter__(self) -> "CurveLines":
        return self

    def __exit__(self, *exception: object) -> None:
        self.update([])  # the last epochs may have ended since

    def say(self, message: str) -> None:
        print(message, flush=True)

    def update(self, events: Sequence[Event]) -> None:
        """Tells what happened, and what was measured since."""
        self._troubles(events)
        for label, curve in self._curves().items():
            epochs = self._runs[label].experiment.epochs
            for epoch, right in [each for each in curve if each[0] > self._told[label]]:
                self.say(
                    f"{label:10} epoch {epoch}/{epochs}  {right:6.1%} of the test digits right"
                )
            self._told[label] = _done(curve)

    def _troubles(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.what in ("failed", "again", "busy"):
                self.say(f"{event.run.name}: {event.message}")

    def _curves(self) -> dict[str, Curve]:
        """As far as they are on the disk."""
        entries = {label: latest_epochs(run, self._out) for label, run in self._runs.items()}
        return {
            label: [(each["epoch"], each["test_accuracy"]) for each in found]
            for label, found in entries.items()
        }


class CurveChart(CurveLines):
    """Both curves, drawn again whenever one has grown."""

    def __init__(self, runs: Mapping[str, PlannedRun], out: Path):
        super().__init__(runs, out)
        self._console = Console(highlight=False)
        self._live = Live(console=self._console, auto_refresh=False, vertical_overflow="visible")
        self._began = time.monotonic()

    def __enter__(self) -> "CurveChart":
        self._live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._draw()
        self._live.stop()

    def say(self, message: str) -> None:
        self._console.print(message, markup=False, soft_wrap=True)

    def update(self, events: Sequence[Event]) -> None:
        self._troubles(events)
        self._draw()

    def _draw(self) -> None:
        curves = self._curves()
        styles = {label: color(run.name) for label, run in self._runs.items()}
        [epochs, *_] = {run.experiment.epochs for run in self._runs.values()}
        plain = self._console.options.ascii_only
        drawn = chart(curves, styles, epochs, self._console.size, plain)
        drawn.append(f"\n{self._progress(curves, epochs)}")
        self._live.update(drawn, refresh=True)

    def _progress(self, curves: Mapping[str, Curve], epochs: int) -> str:
        """In words, below the curves."""
        done = [f"{label} {_done(curve)}/{epochs} epochs" for label, curve in curves.items()]
        if not any(curves.values()):
            done = ["starting, and compiling: the curves begin in some seconds"]
        return "   ".join([*done, clock(time.monotonic() - self._began)])


def _done(curve: Curve) -> int:
    """The last epoch: of a long run, the disk tells the latest ones only."""
    return curve[-1][0] if curve else 0


def show_curves(runs: Mapping[str, PlannedRun], out: Path) -> CurveLines:
    """A chart where there is a terminal to draw it on."""
    return (CurveChart if sys.stdout.isatty() else CurveLines)(runs, out)


def chart(
    curves: Mapping[str, Curve],
    styles: Mapping[str, str],
    epochs: int,
    size: tuple[int, int],
    plain: bool = False,
) -> Text:
    """The curves on axes of all epochs, and of 0 to 100%; the last value stands beside its curve.
    No larger than the terminal's `size`, in columns and lines."""
    margin = 6 + max(len(label) for label in curves) + 8  # for the axis, and what stands beside
    columns = max(10, min(WIDTH, size[0] - margin))
    lines = max(4, min(HEIGHT, size[1] - 6))
    canvas = Canvas(columns, lines, plain)
    beside: dict[int, tuple[str, str]] = {}
    for label, curve in curves.items():
        places = [(epoch / epochs, right) for epoch, right in curve]
        canvas.draw(places, styles[label], PLAIN[list(curves).index(label)])
        if curve:
            row = canvas.row(curve[-1][1])
            row = next(each for each in (row, row - 1, row + 1) if each not in beside)
            beside[row] = (f" {label} {curve[-1][1]:.1%}", styles[label])
    text = Text("test digits named right\n", style="bold")
    for row in range(lines):
        share = {0: "100%", lines // 2: "50%", lines - 1: "0%"}.get(row, "")
        text.append(f"{share:>5} {'|' if plain else '│'}", style="not bold")
        for letter, style in canvas.letters(row):
            text.append(letter, style=f"not bold {style}".strip())
        text.append(*beside.get(row, ("", "")))
        text.append("\n")
    floor = "-" if plain else "─"
    ends = f"{'0':<{columns // 2}}{counted(epochs, 'epoch'):>{columns - columns // 2}}"
    text.append(f"{'':6}{'+' if plain else '└'}{floor * columns}\n{'':7}{ends}", style="not bold")
    return text


class Canvas:
    """Letters to draw on: with eight dots each, or, where there is no Braille, one."""

    def __init__(self, columns: int, rows: int, plain: bool):
        self._columns, self._rows, self._plain = columns, rows, plain
        self._across, self._down = (1, 1) if plain else (2, 4)
        self._letters: dict[tuple[int, int], tuple[int | str, str]] = {}  # what, and its style

    def row(self, share: float) -> int:
        """Of the letter at a height from 0 to 1."""
        return self._dot(0.0, share)[1] // self._down

    def draw(self, places: Sequence[tuple[float, float]], style: str, mark: str) -> None:
        """A line through places, both of whose numbers are from 0 to 1."""
        dots = [self._dot(*place) for place in places]
        for begin, end in zip(dots, dots[1:] or dots, strict=False):
            steps = max(abs(end[0] - begin[0]), abs(end[1] - begin[1]), 1)
            for step in range(steps + 1):
                part = step / steps
                x, y = (round(a + (b - a) * part) for a, b in zip(begin, end, strict=True))
                self._put(x, y, style, mark)

    def letters(self, row: int) -> list[tuple[str, str]]:
        """Of a row, each with its style."""
        found = (self._letters.get((column, row), (" ", "")) for column in range(self._columns))
        return [(chr(BRAILLE + it) if isinstance(it, int) else it, style) for it, style in found]

    def _dot(self, x: float, y: float) -> tuple[int, int]:
        width, height = self._columns * self._across - 1, self._rows * self._down - 1
        return round(x * width), round((1 - y) * height)

    def _put(self, x: int, y: int, style: str, mark: str) -> None:
        place = x // self._across, y // self._down
        if self._plain:
            self._letters[place] = mark, style
            return
        before, owner = self._letters.get(place, (0, style))
        there = before if isinstance(before, int) and owner == style else 0
        self._letters[place] = there | DOTS[y % 4][x % 2], style
