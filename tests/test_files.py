"""Pictures: what is written in them is literal, and what cannot be one is refused first."""

import warnings
from pathlib import Path

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
