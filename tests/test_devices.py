"""Several devices and several processes: the work is divided, and comes to the same."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest

from hnca.lab.cli.hardware import Hardware
from hnca.lab.errors import UserError
from hnca.lab.training import Devices, RunDirectory, Trainer
from test_cli import TRAIN, lines, wait_for
from test_cli import environment as environment
from test_cli import stripes as stripes
from test_runs import DATA, TINY

SCRIPT = Path(__file__).with_name("several_devices.py")


def start(*command, environment=os.environ) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, *map(str, command)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def start_two(*command, second=(), environment=os.environ) -> list[subprocess.Popen]:
    """Two processes that talk to each other. One is told by flags where, the other by the
    environment; and the other may be given more of a command."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    there = {"JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{port}", "JAX_NUM_PROCESSES": "2"}
    flags = ["--coordinator", f"127.0.0.1:{port}", "--processes", 2, "--process", 0]
    return [
        start(*command, *flags, environment=environment),
        start(*command, *second, environment=environment | there | {"JAX_PROCESS_ID": "1"}),
    ]


def said(process: subprocess.Popen, code: int = 0) -> str:
    words = process.communicate(timeout=300)[0]
    assert process.returncode == code, words
    return words


def test_devices_that_are_not_there_are_refused():
    """Here JAX has started, so that its CPU is divided no more."""
    there = len(jax.devices())
    with pytest.raises(UserError, match=f"--devices {there + 1}, but there are {there}: .*XLA_FL"):
        Hardware(devices=there + 1).claim()
    with pytest.raises(UserError, match="--batch-size 5 must be a multiple of the 2 devices"):
        Trainer(replace(TINY, batch_size=5), TINY.images(DATA), Devices(jax.devices() * 2))


def test_a_cpu_is_divided_into_its_cores_at_most(monkeypatch):
    """A hundred thousand devices would take minutes to make."""
    asked = {}
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    monkeypatch.setattr("jax.config.update", asked.__setitem__)
    with pytest.raises(UserError, match="--devices 100000, but there are"):
        Hardware(devices=100_000).claim()
    assert asked == {"jax_num_cpu_devices": os.cpu_count()}


@pytest.mark.slow
def test_a_spread_run_equals_that_of_one_device(tmp_path):
    """One test, for the sake of its processes: one that trains on two devices and on one, and two
    that train together, go on, and fail."""
    processes = [start(SCRIPT, tmp_path, "--devices", 2), *start_two(SCRIPT, tmp_path)]
    alone, first, second = [said(process) for process in processes]
    for task in ("bandit", "vae"):
        assert_same_run(tmp_path / "1" / task, tmp_path / "2" / task)
        assert images(alone, task, devices=1) == (10, 12)
        assert images(alone, task, devices=2) == (5, 6)
    assert_same_run(tmp_path / "1" / "bandit", tmp_path / "processes" / "bandit")
    assert images(first, "bandit", devices=2) == images(second, "bandit", devices=2) == (5, 6)
    bandits = [RunDirectory(each / "bandit") for each in sorted(tmp_path.iterdir())]
    told = [each.read_config()["device"] for each in bandits]
    expected = ["1 x cpu", "2 x cpu", "2 x cpu in 2 processes"]
    assert told == [f"{devices}, float32" for devices in expected]
    assert "epoch 2/2" in first
    assert "epoch 2/2" not in second  # one speaks for all
    assert "going on after epoch 1" in first
    assert_told_of_failures(first, second)


def assert_told_of_failures(first, second):
    """What befalls one process is an error in the other."""
    for words, by in ((first, ""), (second, "process 0: ")):
        assert "settings: UserError: the processes have different settings" in words
        assert re.search(rf"directory: UserError: {by}/.* holds a run with seed 0, not 5", words)
    assert "first: KeyError: 'lost'" in first
    assert "first: UserError: process 0: 'lost'" in second
    assert "second: UserError: another process failed" in first
    assert "second: IndexError" in second


def assert_same_run(one, other):
    """To float32 rounding: a sum over the batch in another order, 8 times, at a step size of 0.1.
    A batch that lost its other half would be off by ten thousand times as much."""
    for mine, theirs in zip(*(RunDirectory(p).read_metrics() for p in (one, other)), strict=True):
        assert list(mine) == list(theirs)
        del mine["seconds"], theirs["seconds"]
        np.testing.assert_allclose([*mine.values()], [*theirs.values()], rtol=1e-5)
    newest = "checkpoint/epoch-000002/arrays.npz"
    with np.load(one / newest) as mine, np.load(other / newest) as theirs:
        assert list(mine) == list(theirs)
        for name in mine:
            np.testing.assert_allclose(mine[name], theirs[name], rtol=1e-5, atol=1e-6)


def images(words, task, devices):
    """How many images a device has at once, of the 10 of a batch and the 12 of a test, in the
    shapes of its compiled programs."""
    found = []
    for name, possible in (("epoch", {10, 5}), ("test", {12, 6})):
        line = re.search(rf"images of {name} of {task} on {devices}: (.*)", words)[1]
        counts = {int(count) for shape in json.loads(line) for count in shape.split(",")[:-1]}
        [count] = counts & possible
        found.append(count)
    return tuple(found)


@pytest.mark.slow
def test_one_process_is_told_to_stop_and_all_do(tmp_path, stripes, environment):
    settings = ["--dataset", stripes, "--epochs", 400, "--out", tmp_path, "--batch-size", 24]
    settings += ["--estimator", "reinforce"]
    first, second = start_two("-m", "hnca", *TRAIN, *settings, environment=environment)
    metrics = tmp_path / "metrics.jsonl"
    wait_for(first, lambda: lines(metrics) >= 2)
    second.send_signal(signal.SIGINT)
    assert "Go on with" in said(first, 130)
    assert "Traceback" not in said(second, 130)
    assert 2 <= lines(metrics) < 400


@pytest.mark.slow
def test_processes_that_were_given_different_runs_do_not_wait(tmp_path, stripes, environment):
    """Not for each other, nor for JAX to end them."""
    command = ["-m", "hnca", *TRAIN, "--dataset", stripes, "--out", tmp_path, "--seeds", 0]
    for process in start_two(*command, second=[1], environment=environment):
        [error] = re.findall(r"^(?:error|Traceback|[FE]\d{4} ).*", said(process, 1), re.MULTILINE)
        assert error.startswith("error: the processes have different settings")
    assert not list(tmp_path.iterdir())
