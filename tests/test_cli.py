"""The command line as its users meet it: real processes, signals, and wrong input."""

import errno
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from made_up_runs import make_run
from rich.console import Console

from hnca.lab.cli import main
from hnca.lab.cli.progress import EpochLines
from hnca.lab.data.idx import FILES, encode
from hnca.lab.experiments import Bandit
from hnca.lab.training import Interrupted
from test_runs import DATA, outcome

# What is tested is the engine, not the method: one that compiles fast.
TRAIN = ["train", "bandit", "--layers", "1", "--units", "4", "--batch-size", "4"]
TRAIN += ["--estimator", "reinforce+baseline"]
EPOCHS = 120


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """One place for compiled programs, for all the processes of this file."""
    cache = tmp_path_factory.mktemp("cache")
    return os.environ | {
        "HNCA_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }


@pytest.fixture(scope="module")
def stripes(tmp_path_factory):
    """A data set of one's own: a directory of idx files."""
    directory = tmp_path_factory.mktemp("stripes")
    arrays = (DATA.train_images, DATA.train_labels, DATA.test_images, DATA.test_labels)
    for file, array in zip(FILES, arrays, strict=True):
        (directory / file).write_bytes(encode(array))
    return directory


def start(out: Path, stripes: Path, environment: dict[str, str]) -> subprocess.Popen:
    settings = ["--dataset", str(stripes), "--epochs", str(EPOCHS), "--out", str(out)]
    return subprocess.Popen(
        [sys.executable, "-m", "hnca", *TRAIN, *settings],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def lines(path: Path) -> int:
    return path.read_text().count("\n") if path.exists() else 0


def wait_for(process: subprocess.Popen, ready) -> None:
    deadline = time.monotonic() + 120
    while not ready():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.mark.slow
def test_killed_and_interrupted_a_run_ends_in_the_same_bits(tmp_path, stripes, environment):
    out, metrics = tmp_path / "run", tmp_path / "run" / "metrics.jsonl"
    reference = start(tmp_path / "whole", stripes, environment)
    said = reference.communicate()[0]
    assert reference.returncode == 0, said

    kills = [
        lambda: (out / "config.json").exists(),  # before there is anything to go on from
        lambda: lines(metrics) >= 1,  # about when the first checkpoint is written
        lambda: list((out / "checkpoint").glob("*.aside")) and lines(metrics) >= 30,
    ]
    for moment in kills:
        process = start(out, stripes, environment)
        wait_for(process, moment)
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL

    for signum, code, epochs in ((signal.SIGTERM, 143, 45), (signal.SIGINT, 130, 60)):
        process = start(out, stripes, environment)
        wait_for(process, lambda epochs=epochs: lines(metrics) >= epochs)
        process.send_signal(signum)
        said = process.communicate()[0]
        assert process.returncode == code, said
        assert re.search(r"Saved after epoch \d+. Go on with:\n  .*hnca train bandit .*--out", said)
        assert "Traceback" not in said
        assert epochs <= lines(metrics) < EPOCHS

    last = start(out, stripes, environment)
    said = last.communicate()[0]
    assert last.returncode == 0, said
    assert "going on after epoch" in said
    assert outcome(out) == outcome(tmp_path / "whole")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trian"], "'trian' is none of demo, train, evaluate"),
        (["train", "bandits"], "is none of bandit, conv-bandit"),
        (["train", "mine.py"], "an experiment of your own is FILE.py:CLASS"),
        (["train", "bandit", "--layer", "2"], "perhaps you meant --layers"),
        (["train", "bandit", "--layers", "two"], "--layers must be a whole number, not 'two'"),
        (["train", "bandit", "--epochs", "1.5"], "--epochs must be a whole number, not '1.5'"),
        (["train", "bandit", "--learning-rate", "inf"], "--learning-rate must be a number"),
        (["train", "vae", "--layers", "0"], "--layers must be above 0"),
        (["train", "vae", "--layers", "1000000000000"], "--layers must be below"),
        (["train", "conv-vae", "--channels", "2", "0"], "--channels must be one or more numbers"),
        (["train", "conv-vae", "--kernel", "1"], "--kernel must be 2 or more"),
        (
            ["train", "bandit", "--estimator", "loo"],
            "use one of hnca, hnca+baseline, hnca+learned, reinforce",
        ),
        (["train", "bandit", "--preset", "slow"], "paper"),
        (["train", "bandit", "--preset"], "--preset"),
        (["train", "bandit", "--seed", "1", "--seeds", "1", "2"], "--seed or --seeds, not both"),
        (["train", "bandit", "--seeds", "1", "1"], "each of them once"),
        (["train", "bandit", "--seeds", "0", "-1"], "--seed must be from 0"),
        (["train", "bandit", "--devices", "0"], "--devices must be 1 or more"),
        (["train", "bandit", "--coordinator", "here"], "--coordinator must be HOST:PORT"),
        (["train", "bandit", "--process", "1"], "need a --coordinator"),
        (["evaluate", "nowhere"], "nowhere is no run"),
        (["evaluate"], "RUN"),
        (["train", "bandit", "--dataset", "minst"], "did you mean 'mnist'"),
        ([*TRAIN, "--dataset", "STRIPES", "--out", "/dev/null/x"], "/dev/null/x"),
        (["train", "bandit", "--dataset", "STRIPES", "--batch-size", "500"], "more than 48"),
        (["data", "show", "STRIPES", "--columns", "100000"], "--columns must be from 1 to 500"),
        (
            ["train", "bandit", "--estimator", "magic"],
            "unknown estimator 'magic': there is no method",
        ),
        (["train", "vae", "--estimator", "disarm+loo"], "'disarm' has no baseline; choose one of"),
        (["train", "vae", "--categories", "1"], "--categories must be 2 or more"),
        (["sweep", "quick", "--epochs", "0"], "--epochs must be above 0"),
        (["sweep", "quick", "--workers", "0"], "--workers must be 1 or more"),
        (["sweep", "quick", "--only", "nothing"], "matches none of"),
    ],
)
def test_wrong_input_gets_one_line(capfd, stripes, arguments, message):
    """Exits with 2 if the command line cannot be meant, with 1 if it cannot be done."""
    with pytest.raises(SystemExit) as leaving:
        main([str(stripes) if each == "STRIPES" else each for each in arguments])
    impossible = ("nowhere is no run", "did you mean 'mnist'", "/dev/null/x", "more than 48")
    assert leaving.value.code == (1 if message in impossible else 2)
    said = capfd.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith("error: ")
    assert message in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["info"], ["jaxlib", "devices", "kernel", "cache"]),
        (["--help"], ["hnca demo", "train", "data"]),
        (["train", "--help"], ["bandit", "conv-bandit", "--preset quick"]),
        (
            ["train", "bandit", "--help"],
            ["--layers INT", "hnca, hnca+baseline, hnca+learned,"],
        ),
        (["train", "vae", "--help"], ["loo-independent, disarm, arm, double-cv"]),
        (["sweep", "--help"], ["[settings]", "[[grid]]"]),
        (["data", "--help"], ["HNCA_CACHE_DIR"]),
    ],
)
def test_help_teaches(capsys, arguments, words):
    with pytest.raises(SystemExit) as leaving:
        main(arguments)
    assert not leaving.value.code
    said = capsys.readouterr().out
    assert all(word in " ".join(said.split()) for word in words)
    if arguments == ["--help"]:
        assert said.count("\n") <= 24


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["--help"], 0), (["data", "fetch", "--help"], 0), (["data", "fetch"], 141)],
)
def test_output_that_nobody_reads(monkeypatch, stripes, arguments, code):
    """As in `hnca --help | head -1`."""
    reader, writer = os.pipe()
    os.close(reader)
    arguments = [*arguments, str(stripes)] if arguments[-1] == "fetch" else arguments
    with os.fdopen(writer, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        with pytest.raises(SystemExit) as leaving:
            main(arguments)
    assert leaving.value.code == code


def test_output_that_is_closed(monkeypatch, tmp_path, stripes):
    """As in `hnca train bandit >&-`."""
    monkeypatch.setattr(sys, "stdout", None)
    settings = ["--dataset", str(stripes), "--epochs", "1", "--out", str(tmp_path / "run")]
    with pytest.raises(SystemExit) as leaving:
        main([*TRAIN, *settings])
    assert not leaving.value.code
    assert (tmp_path / "run" / "summary.json").exists()
    sys.stdout.close()  # the one that it had to open


def test_data_of_one_class_is_no_bandits(tmp_path, capsys):
    arrays = (DATA.train_images, 0 * DATA.train_labels, DATA.test_images, 0 * DATA.test_labels)
    for file, array in zip(FILES, arrays, strict=True):
        (tmp_path / file).write_bytes(encode(array))
    with pytest.raises(SystemExit) as leaving:
        main([*TRAIN, "--dataset", str(tmp_path), "--out", str(tmp_path / "run")])
    assert leaving.value.code == 1
    assert "has one class: a bandit needs two or more" in capsys.readouterr().err


def test_progress_says_when_the_last_test_is_running(capsys):
    lines = EpochLines(Bandit())
    lines.begin(epochs=2, done=0, steps=10)
    entry = {"seconds": 1.0, "train_accuracy": 0.5, "gradient_variance": 1.0}
    for number, tested in ((1, {}), (2, {"test_accuracy": 0.5}), (2, {})):
        lines.epoch(entry | {"epoch": number} | tested)
    said = capsys.readouterr().out.splitlines()
    assert ["the last test is running" in line for line in said] == [False, False, True]


@pytest.mark.slow
def test_a_report_where_the_locale_knows_ascii_only(tmp_path):
    make_run(tmp_path / "run", Bandit(epochs=2))
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [
        sys.executable,
        "-m",
        "hnca",
        "report",
        str(tmp_path),
        "-o",
        str(tmp_path / "report"),
    ]
    done = subprocess.run(command, env=os.environ | plain, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "1 of 1 run is complete" in done.stdout
    assert "±" in (tmp_path / "report" / "index.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("task", "size"), [("vae", ["--units", "3"]), ("conv-vae", ["--channels", "2"])]
)
def test_a_vae_from_training_to_a_picture(tmp_path, stripes, monkeypatch, capsys, task, size):
    run, picture = tmp_path / "vae", tmp_path / "digits.png"
    settings = [*size, "--epochs", "2", "--batch-size", "8", "--eval-samples", "2"]
    settings += ["--estimator", "reinforce"]
    for arguments in (
        ["train", task, "--dataset", str(stripes), "--out", str(run), *settings],
        ["evaluate", str(run), "--samples", "5"],
        ["generate", str(run), "-o", str(picture)],
    ):
        with pytest.raises(SystemExit) as leaving:
            main(arguments)
        assert not leaving.value.code, capsys.readouterr().err
    said = capsys.readouterr().out
    first = json.loads((run / "summary.json").read_text())
    assert f"test_bound {first['evaluation']['test_bound']:.2f}" in said
    assert first["evaluation"]["samples"] == 5
    assert first["evaluation"]["test_bound_standard_error"] > 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(SystemExit):
        main(["evaluate", str(run), "--samples", "5"])
    assert json.loads((run / "summary.json").read_text()) == first
    with pytest.raises(SystemExit):
        main(["train", task, "--dataset", str(stripes), "--out", str(run), *settings])
    assert json.loads((run / "summary.json").read_text()) == first
    check_evaluations_that_cannot_be_written(run, monkeypatch, capsys)


def check_evaluations_that_cannot_be_written(run, monkeypatch, capsys):
    """What was computed is printed all the same; what can be known before is."""

    def full(path, record):
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    capsys.readouterr()
    with monkeypatch.context() as patch:
        patch.setattr("hnca.lab.files.write_json", full)
        with pytest.raises(SystemExit):
            main(["evaluate", str(run), "--samples", "5"])
    said = capsys.readouterr()
    assert "test_bound" in said.out
    assert "No space left" in said.err
    (run / "summary.json").write_text("")
    monkeypatch.setattr("hnca.lab.training.evaluation.read_trained", None)  # nothing is done
    with pytest.raises(SystemExit):
        main(["evaluate", str(run)])
    assert "summary.json is damaged" in capsys.readouterr().err


def test_an_interrupted_run_ends_with_a_command_to_paste(tmp_path, stripes, monkeypatch, capsys):
    """On a narrow terminal: in one piece, and with nothing below it."""

    def interrupted(*arguments):
        raise Interrupted(signal.SIGINT)

    narrow = partial(Console, force_terminal=True, width=40)
    monkeypatch.setattr("hnca.lab.cli.progress.Console", narrow)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setattr("hnca.lab.training.loop._epoch", interrupted)
    command = [*TRAIN, "--dataset", str(stripes), "--out", str(tmp_path / "run")]
    with pytest.raises(SystemExit) as leaving:
        main(command)
    assert leaving.value.code == 130
    said = capsys.readouterr().out
    assert re.search(r"Go on with:\n  \S.* " + re.escape(shlex.join(command)) + r"\s*$", said)


def test_importing_the_library_is_light():
    code = (
        "import sys, hnca; print([m for m in ('matplotlib', 'pooch', 'rich') if m in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
