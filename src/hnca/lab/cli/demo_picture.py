"""What came of the demo: both curves, and what the networks answered on the same digits."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.text import Text

from ..data.pictures import tiled
from ..experiments import Images
from ..experiments.images import pixels_of
from ..files import write_figure
from ..report.labels import color
from ..sweep import PlannedRun
from ..training import RunDirectory
from ..training.evaluation import read_trained

COLUMNS = 12  # digits in a row
RIGHT, WRONG = "#117733", "#cc2222"


def answers(path: Path, data: Images, count: int) -> np.ndarray:
    """What a trained network says of the first test images, once: it answers by chance."""
    pixel_key, unit_key = jax.random.split(jax.random.key(0))
    x = pixels_of(pixel_key, jnp.asarray(data.test["image"][:count]))
    graph = read_trained(RunDirectory(path)).graph
    return np.asarray(graph.sample(unit_key, x=x)["action"])


def print_answers(asked: Mapping[str, np.ndarray], labels: np.ndarray) -> None:
    """A line of digits for each network, below the right ones."""
    console = Console(highlight=False)
    lines = [Text(f"{f'the first {len(labels)} test digits':24} {_spaced(labels)}")]
    for who, said in asked.items():
        line = Text(f"{f'{who} answers':24}")
        for answer, label in zip(said, labels, strict=True):
            line.append(" ")
            # Where there are no colours, a wrong answer is told by a dot in its place.
            wrong = str(answer) if console.is_terminal else "."
            line.append(*((str(answer), "green") if answer == label else (wrong, "bold red")))
        line.append(f"   {np.sum(said == labels)} right")
        lines.append(line)
    console.print(*lines, sep="\n", soft_wrap=True)


def _spaced(values: Any) -> str:
    return " ".join(map(str, values))


def draw_demo(
    runs: Mapping[str, PlannedRun],
    asked: Mapping[str, np.ndarray],
    data: Images,
    out: Path,
    path: Path,
) -> None:
    """Draws the curves on the left, and the answers on the right."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 5), layout="constrained")
    halves: Any = figure.subfigures(1, 2, width_ratios=[5, 8])
    left, right = halves
    _draw_curves(left.subplots(), runs, out)
    parts = right.subplots(len(asked), 1, squeeze=False)[:, 0]
    for axes, (who, said) in zip(parts, asked.items(), strict=True):
        _draw_answers(axes, who, color(runs[who].name), said, data)
    network = "three layers of stochastic units, told no more than right or wrong"
    figure.suptitle(f"The same network, trained in two ways on {data.name}: {network}")
    write_figure(path, figure, dpi=130)


def _draw_curves(axes: Any, runs: Mapping[str, PlannedRun], out: Path) -> None:
    for who, run in runs.items():
        entries = RunDirectory(out / run.name).read_metrics()
        epochs = [entry["epoch"] for entry in entries]
        right = [100 * entry["test_accuracy"] for entry in entries]
        axes.plot(epochs, right, color=color(run.name), lw=2.5, marker="o", ms=4)
        axes.annotate(
            f"{who}\n{right[-1]:.1f}%",
            (epochs[-1], right[-1]),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            color=color(run.name),
            fontweight="bold",
        )
    axes.set(xlabel="epoch", ylabel="test digits named right (%)", ylim=(0, 100))
    axes.margins(x=0.05)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_answers(axes: Any, who: str, shade: str, said: np.ndarray, data: Images) -> None:
    """The digits, with an answer below each."""
    count, (height, width) = len(said), data.shape
    images, labels = 255 - data.test["image"][:count], data.test["label"][:count]
    room = np.full((height // 2, width), 255, np.uint8)  # for the answer
    cells = [np.concatenate([image, room]) for image in images]
    rows = [cells[start : start + COLUMNS] for start in range(0, count, COLUMNS)]
    shape = (height + len(room), width)
    axes.imshow(tiled(rows, shape, COLUMNS, np.uint8(255)), cmap="gray", vmin=0, vmax=255)
    for number, (answer, label) in enumerate(zip(said, labels, strict=True)):
        row, column = divmod(number, COLUMNS)
        x, y = column * (width + 1) + width / 2, row * (shape[0] + 1) + height + len(room) / 2
        good = answer == label
        style = {"color": RIGHT} if good else {"color": WRONG, "fontweight": "bold"}
        axes.text(x, y, f"{answer}" if good else f"{answer} ✗", ha="center", va="center", **style)
    title = f"{who}'s network answers: {np.sum(said == labels)} of {count} right"
    axes.set_title(title, loc="left", color=shade, fontweight="bold", fontsize="medium")
    axes.axis("off")
