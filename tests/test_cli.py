"""The command line as its users meet it: real processes, signals, and wrong input."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hnca.lab.cli import main
from hnca.lab.data.idx import FILES, encode
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


def test_killed_and_interrupted_a_run_ends_in_the_same_bits(tmp_path, stripes, environment):
    out, metrics = tmp_path / "run", tmp_path / "run" / "metrics.jsonl"
    reference = start(tmp_path / "whole", stripes, environment)
    said = reference.communicate()[0]
    assert reference.returncode == 0, said

    kills = [
        lambda: (out / "config.json").exists(),  # before there is anything to go on from
        lambda: lines(metrics) >= 1,  # about when the first checkpoint is written
        lambda: (out / "checkpoint" / ".aside").exists() and lines(metrics) >= 30,
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
        (["train", "bandit", "--layer", "2"], "perhaps you meant --layers"),
        (["train", "bandit", "--layers", "two"], "--layers must be a whole number, not 'two'"),
        (["train", "bandit", "--epochs", "1.5"], "--epochs must be a whole number, not '1.5'"),
        (["train", "bandit", "--learning-rate", "inf"], "--learning-rate must be a number"),
        (["train", "vae", "--layers", "0"], "--layers must be above 0"),
        (["train", "bandit", "--estimator", "loo"], "use hnca or reinforce"),
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
    ],
)
def test_wrong_input_gets_one_line(capfd, stripes, arguments, message):
    with pytest.raises(SystemExit) as leaving:
        main([str(stripes) if each == "STRIPES" else each for each in arguments])
    assert leaving.value.code in (1, 2)
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
        (["train", "bandit", "--help"], ["--layers INT", "hnca+baseline"]),
    ],
)
def test_help_teaches(capsys, arguments, words):
    with pytest.raises(SystemExit) as leaving:
        main(arguments)
    assert not leaving.value.code
    said = capsys.readouterr().out
    assert all(word in said for word in words)
    if arguments == ["--help"]:
        assert said.count("\n") <= 24


def test_a_vae_from_training_to_a_picture(tmp_path, stripes, capsys):
    run, picture = tmp_path / "vae", tmp_path / "digits.png"
    settings = ["--units", "3", "--epochs", "2", "--batch-size", "8", "--eval-samples", "2"]
    settings += ["--estimator", "reinforce"]
    for arguments in (
        ["train", "vae", "--dataset", str(stripes), "--out", str(run), *settings],
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
        main(["train", "vae", "--dataset", str(stripes), "--out", str(run), *settings])
    assert json.loads((run / "summary.json").read_text()) == first


def test_importing_the_library_is_light():
    code = (
        "import sys, hnca; print([m for m in ('matplotlib', 'pooch', 'rich') if m in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
