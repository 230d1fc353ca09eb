"""The first minute: two curves that grow, a sentence, and a picture."""

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from made_up_runs import make_run
from rich.console import Console

from hnca.lab.cli import main
from hnca.lab.cli.demo import METHODS, compare
from hnca.lab.cli.demo_chart import CurveChart, CurveLines, chart
from hnca.lab.errors import UserError
from hnca.lab.experiments import Bandit
from hnca.lab.sweep import Event, PlannedRun
from test_cli import environment, stripes  # noqa: F401
from test_runs import outcome
from test_sweep import here  # noqa: F401

TINY = Bandit(epochs=2, layers=1, units=4, batch_size=10, learning_rate=1e-2)
SENTENCE = r"After 2 epochs, the network that HNCA trained names (\S+)% of .*\n.*REINFORCE.* (\S+)%"


@pytest.fixture
def tiny(stripes):  # noqa: F811
    experiment = replace(TINY, dataset=str(stripes))
    return experiment, experiment.data(None, print)


@pytest.mark.usefixtures("here")
def test_a_demo_from_nothing_to_the_picture(tmp_path, tiny, capsys, monkeypatch):
    out = tmp_path / "demo"
    compare(*tiny, out, "hnca demo")
    said = capsys.readouterr().out
    for label in METHODS:
        for epoch in (1, 2):
            assert re.search(rf"^{label} +epoch {epoch}/2 +\d+\.\d% of the test", said, re.M)
        line = re.search(rf"^{label} answers +((?:[\d.] )+) +(\d+) right$", said, re.M)
        assert line
        assert sum(each.isdigit() for each in line[1].split()) == int(line[2])
    found = re.search(SENTENCE, said)
    assert found
    for method, share in zip(METHODS.values(), found.groups(), strict=True):
        *_, last = map(json.loads, (out / method / "metrics.jsonl").read_text().splitlines())
        assert f"{last['test_accuracy']:.1%}" == f"{share}%"
    picture = (out / "demo.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert f"picture  {out / 'demo.png'}" in said

    monkeypatch.setattr("hnca.lab.cli.sweep.make_engine", None)  # nobody is needed any more
    compare(*tiny, out, "hnca demo")
    again = capsys.readouterr().out
    assert "Both were trained already" in again
    assert found[0] in again
    with pytest.raises(UserError, match="holds a run with other settings: choose another --out"):
        compare(replace(tiny[0], units=5), tiny[1], out, "hnca demo")


@pytest.mark.usefixtures("here")
def test_a_demo_that_fails_says_why(tmp_path, tiny):
    experiment, data = tiny
    with pytest.raises(UserError, match=r"\+baseline: --batch-size 500 is more than 48"):
        compare(replace(experiment, batch_size=500), data, tmp_path / "demo", "hnca demo")


def test_without_mnist_the_demo_draws_its_own_digits(monkeypatch, capsys, tmp_path):
    def data(self, directory, say):
        if self.dataset == "mnist":
            raise UserError("no network")
        return "drawn"

    asked = []
    monkeypatch.setattr(Bandit, "data", data)
    monkeypatch.setattr("hnca.lab.cli.demo.compare", lambda *arguments: asked.append(arguments))
    with pytest.raises(SystemExit) as leaving:
        main(["demo", "--epochs", "3"])
    assert not leaving.value.code
    [(experiment, found, out, command)] = asked
    assert (experiment.dataset, experiment.epochs, found) == ("glyphs", 3, "drawn")
    assert out == Path("runs/demo/glyphs")
    assert command.endswith(" demo --epochs 3")
    said = capsys.readouterr().out
    assert "MNIST cannot be had here, so the demo draws its own digits: glyphs" in said
    assert "--dataset glyphs" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--epochs", "0"], "--epochs must be above 0"),
        (["--epoch", "3"], "perhaps you meant --epochs"),
        (["mnist"], "unknown mnist"),
    ],
)
def test_wrong_input_gets_one_line(capfd, arguments, message):
    with pytest.raises(SystemExit) as leaving:
        main(["demo", *arguments])
    assert leaving.value.code == 2
    said = capfd.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert message in said.err


CURVES = {"HNCA": [(1, 0.4), (2, 0.7), (4, 0.9)], "REINFORCE": [(1, 0.1), (2, 0.12)]}
STYLES = {"HNCA": "green", "REINFORCE": "yellow"}


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("size", [(100, 40), (60, 20), (40, 10)])
def test_a_chart_fits_its_terminal_and_has_its_values(plain, size):
    text = chart(CURVES, STYLES, 4, size, plain)
    lines = text.plain.split("\n")
    assert max(map(len, lines)) <= size[0]
    assert len(lines) <= size[1] - 2
    assert not plain or text.plain.isascii()
    height = {label: at for at, line in enumerate(lines) for label in CURVES if label in line}
    assert height["HNCA"] < height["REINFORCE"]  # the higher value stands above
    assert "HNCA 90.0%" in text.plain
    axis = lines[1].index("|" if plain else "│") + 1
    ends = {label: lines[at].index(label) for label, at in height.items()}
    drawn = lines[height["HNCA"]][axis : ends["HNCA"]].rstrip()
    assert len(drawn) == ends["HNCA"] - axis - 1  # its line ends where the last epoch is
    below = lines[height["REINFORCE"]][axis : ends["REINFORCE"]].rstrip()
    assert len(below) <= len(drawn) // 2 + 1  # and this one in the middle


def test_lines_rise_with_their_values():
    """In every column of letters, more is higher."""
    rows = chart({"A": [(1, 0.0), (10, 1.0)]}, {"A": "red"}, 10, (80, 30), True).plain.split("\n")
    marks = sorted((line.index("*"), -at) for at, line in enumerate(rows) if "*" in line)
    assert len(marks) == 12
    assert [height for _, height in marks] == sorted(height for _, height in marks)


def test_values_that_are_close_stand_apart():
    same = {"HNCA": [(1, 0.5)], "REINFORCE": [(1, 0.5)]}
    text = chart(same, STYLES, 4, (80, 30)).plain
    assert "HNCA 50.0%" in text
    assert "REINFORCE 50.0%" in text


@pytest.fixture
def half(tmp_path):
    runs = {
        label: PlannedRun(method, Bandit(epochs=3, estimator=method))
        for label, method in METHODS.items()
    }
    make_run(tmp_path / "hnca+baseline", runs["HNCA"].experiment, done=1)
    return runs, tmp_path


def grow(runs, out):
    """Another epoch of the first run, as if it had just been done."""
    metrics = out / "hnca+baseline" / "metrics.jsonl"
    metrics.write_text(
        metrics.read_text() + metrics.read_text().replace('"epoch": 1', '"epoch": 2')
    )


def test_lines_tell_what_is_new(half, capsys):
    with CurveLines(*half) as show:
        show.update([])
        assert capsys.readouterr().out == ""  # what was there before is no news
        grow(*half)
        show.update([Event("again", half[0]["REINFORCE"], "its worker died")])
        said = capsys.readouterr().out.splitlines()
        assert said[0] == "reinforce+baseline: its worker died"
        assert said[1].startswith("HNCA       epoch 2/3")
    assert capsys.readouterr().out == ""


def test_a_terminal_sees_the_curves_grow(half, monkeypatch):
    show = CurveChart(*half)
    console = Console(force_terminal=True, width=80, height=30, record=True)
    monkeypatch.setattr(show, "_console", console)
    monkeypatch.setattr(show._live, "console", console)
    show.update([])
    grow(*half)
    with console.capture() as captured, show:
        show.update([])
        show.say("stopping after this epoch")
    said = captured.get()
    assert "HNCA 2/3 epochs   REINFORCE 0/3 epochs" in said
    assert "stopping after this epoch" in said


SCRIPT = """
from dataclasses import replace
from pathlib import Path
from test_demo import TINY, compare
experiment = replace(TINY, dataset={data!r}, epochs={epochs})
compare(experiment, experiment.data(None, print), Path({out!r}), "hnca demo --out here")
"""


@pytest.mark.slow
def test_interrupted_a_demo_goes_on(tmp_path, stripes, environment, capfd):  # noqa: F811
    """By processes: Ctrl-C is for the whole group, as in a terminal."""
    paths = os.pathsep.join(map(str, [Path(__file__).parent, *filter(None, sys.path)]))

    def start(out, epochs):
        code = SCRIPT.format(data=str(stripes), epochs=epochs, out=str(out))
        return subprocess.Popen(
            [sys.executable, "-c", f"from hnca.lab.cli import main\n{code}"],
            env=environment | {"PYTHONPATH": paths},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    process = start(tmp_path / "demo", 100_000)
    assert process.stdout
    for line in process.stdout:
        if "epoch 5/" in line:
            break
    os.killpg(process.pid, signal.SIGINT)
    said = process.communicate(timeout=120)[0]
    assert process.returncode == 130, said
    assert "stopping after this epoch" in said
    assert "Stopped with 0 of 2 runs done. Go on with:\n  hnca demo --out here" in said
    assert "Traceback" not in said
    epochs = max(
        (tmp_path / "demo" / each / "metrics.jsonl").read_text().count("\n")
        for each in METHODS.values()
    )
    for out in ("demo", "whole"):
        process = start(tmp_path / out, epochs + 2)
        said = process.communicate(timeout=300)[0]
        assert process.returncode == 0, said
    for method in METHODS.values():
        assert outcome(tmp_path / "demo" / method) == outcome(tmp_path / "whole" / method)
