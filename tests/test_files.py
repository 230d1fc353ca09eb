"""Pictures: what is written in them is literal, and what cannot be one is refused first."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from hnca.lab.cli.data import main
from hnca.lab.cli.generate import main as generate
from hnca.lab.data import draw_examples, load
from hnca.lab.errors import UserError
from hnca.lab.experiments import Bandit
from hnca.lab.files import (
    PICTURE_ENDINGS,
    check_picture,
    whole_directory,
    write_figure,
    write_whole,
)
from hnca.lab.report import Collection, write_report
from hnca.lab.training.curves import draw_curves
from hnca.lab.training.generation import Part, changes, draw_parts
from tiny_data import put

FORMULA = r"co$t_{^\$x$"  # not even a formula


@pytest.mark.parametrize("ending", PICTURE_ENDINGS)
def test_a_dollar_is_a_dollar_in_every_format(tmp_path, ending):
    figure = Figure(figsize=(2, 2), layout="constrained")
    axes = figure.add_subplot()
    axes.set(title=FORMULA, xlabel=FORMULA, ylabel=FORMULA)
    axes.plot([0, 1], label=FORMULA)
    axes.set_yticks([0, 1], [FORMULA, "$a$"])
    axes.legend()
    figure.suptitle(FORMULA)
    file = tmp_path / f"picture.{ending}"
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The PostScript backend does not support transparency")
        write_figure(file, figure)
    assert file.stat().st_size > 0


def test_the_literal_text_is_what_is_drawn(tmp_path):
    figure = Figure()
    figure.suptitle("$n$")
    write_figure(tmp_path / "literal.png", figure)
    other = Figure()
    other.suptitle(r"\$n\$")  # matplotlib's own way to write dollars
    other.savefig(tmp_path / "escaped.png", format="png")
    assert (tmp_path / "literal.png").read_bytes() == (tmp_path / "escaped.png").read_bytes()


def test_curves_and_pictures_of_data_with_a_dollar(tmp_path):
    mine = put(tmp_path / FORMULA)
    draw_examples(load(str(mine)), tmp_path / "data.png", 2)
    entry = {"epoch": 1, "train_accuracy": 0.5, "gradient_variance": 1.0}
    draw_curves([entry], Bandit(dataset=str(mine)), tmp_path / "curves.png")


@pytest.mark.parametrize("name", ["x.xyz", "x.pgf", "x.raw"])
def test_endings_that_are_no_pictures_are_refused(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"cannot be \.\w+: choose one of \.png, \.pdf, \.svg"):
        check_picture(Path(name))
    with pytest.raises(UserError, match="choose"):
        write_figure(Path(name), Figure())
    monkeypatch.setattr("hnca.lab.data.load", lambda *_, **__: pytest.fail("data was loaded"))
    with pytest.raises(UserError, match="choose"):
        main(["show", "mine", "-o", name])
    with pytest.raises(UserError, match="choose"):
        generate(["no-such-run", "-o", name])


def test_places_where_no_picture_can_be(tmp_path):
    with pytest.raises(UserError, match="is a directory: name a file in it"):
        check_picture(tmp_path)
    with pytest.raises(UserError, match=r"there is no directory .*nowhere"):
        check_picture(tmp_path / "nowhere" / "x.png")
    check_picture(tmp_path / "x.PNG")
    check_picture(tmp_path / "x")


def test_what_cannot_be_written_is_named_by_its_own_name(tmp_path):
    with pytest.raises(OSError, match="No such file") as failure:
        write_whole(tmp_path / "nowhere" / "x.json", b"")
    assert failure.value.filename == str(tmp_path / "nowhere" / "x.json")


def drawn(monkeypatch, module: str) -> list[Any]:
    """Figures, as they are instead of as files."""
    figures: list[Any] = []
    keep = lambda path, figure, **_: figures.append(figure)
    monkeypatch.setattr(f"hnca.lab.training.{module}.write_figure", keep)
    return figures


def test_curves_are_covered_by_nothing_and_layers_in_order(monkeypatch, tmp_path):
    figures = drawn(monkeypatch, "curves")
    layers = ("", "/h2", "/h10", "/action")
    entries = [
        {"epoch": n, "train_accuracy": 0.1 * n}
        | {f"gradient_variance{layer}": 1.0 / n for layer in layers}
        | {"active_units/h2": 1.0, "active_units/h10": 2.0}
        | ({"test_accuracy": 0.5} if n == 2 else {})
        for n in (1, 2, 3)
    ]
    draw_curves(entries, Bandit(), tmp_path / "curves.png")
    (figure,) = figures
    figure.draw_without_rendering()
    objective, _, active = figure.axes
    for axes in figure.axes:
        assert not axes.get_legend().get_window_extent().overlaps(axes.get_window_extent())
        assert not axes.get_title()
    names = [[text.get_text().split(" (")[0] for text in a.get_legend().texts] for a in figure.axes]
    all_layers = ["all measured layers", "h2", "h10", "action"]
    assert names == [["train", "test"], all_layers, ["h2", "h10"]]
    assert active.get_ylabel() == "active units"
    assert "bandit-3" in figure.get_suptitle()
    train, test = objective.lines
    assert (train.get_marker(), test.get_marker(), len(test.get_xdata())) == ("None", "o", 1)


def test_small_differences_are_seen_and_their_scale_is_told(monkeypatch, tmp_path):
    figures = drawn(monkeypatch, "generation")
    before = np.full((16, 16), 0.5)
    after = before + 1e-3 * np.sin(np.arange(256)).reshape(16, 16)
    part = changes(before, after, range(16))
    draw_parts([Part("samples", before), part], (4, 4), tmp_path / "x.png", "weak")
    (figure,) = figures
    _, axes = figure.axes
    (image,) = axes.images
    low, high = image.get_clim()
    assert high == -low == np.nanmax(np.abs(image.get_array())) < 0.01
    assert "full colour: 0.001 of" in axes.get_title(loc="left")
    assert [text.get_text() for text in axes.texts] == [f"unit {n}" for n in range(16)]
    assert [text.get_position()[0] for text in axes.texts[:2]] == [1.5, 6.5]  # above their columns


def test_what_fails_leaves_nothing_behind(tmp_path):
    (tmp_path / "there").mkdir()
    with pytest.raises(IsADirectoryError):
        write_whole(tmp_path / "there", b"...")
    with pytest.raises(ZeroDivisionError), whole_directory(tmp_path / "new") as aside:
        (aside / "half").write_text(str(1 // 0))
    with pytest.raises(TypeError):
        write_report(Collection([], None, None), tmp_path / "report")
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_a_directory_is_replaced_as_a_whole(tmp_path):
    for text in ("one", "two"):
        with whole_directory(tmp_path / "new") as aside:
            (aside / text).write_text(text)
    assert [path.name for path in tmp_path.rglob("*")] == ["new", "two"]
