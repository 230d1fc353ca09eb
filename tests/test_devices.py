"""Several devices and several processes: the work is divided, and comes to the same."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hnca.training import RunDirectory
from test_cli import TRAIN, lines, wait_for
from test_cli import environment as environment
from test_cli import stripes as stripes

SCRIPT = Path(__file__).with_name("several_devices.py")


def start(*command, environment=os.environ) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, *map(str, command)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def start_two(*command, environment=os.environ) -> list[subprocess.Popen]:
    """Two processes that talk to each other. One is told by flags where, the other by the
    environment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    there = {"JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{port}", "JAX_NUM_PROCESSES": "2"}
    flags = ["--coordinator", f"127.0.0.1:{port}", "--processes", 2, "--process", 0]
    return [
        start(*command, *flags, environment=environment),
        start(*command, environment=environment | there | {"JAX_PROCESS_ID": "1"}),
    ]


def said(process: subprocess.Popen, code: int = 0) -> str:
    words = process.communicate(timeout=120)[0]
    assert process.returncode == code, words
    return words


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Where one device, two, and two processes have left their runs, and what they said."""
    path = tmp_path_factory.mktemp("devices")
    processes = {
        f"{count}": start(SCRIPT, path / f"{count}", "--devices", count) for count in (1, 2)
    }
    words = {name: said(process) for name, process in processes.items()}
    first, second = start_two(SCRIPT, path / "processes")
    words["processes"], words["silent"] = said(first), said(second)
    return path, words


@pytest.mark.parametrize("task", ["bandit", "vae"])
@pytest.mark.parametrize("spread", ["2", "processes"])
def test_a_spread_run_equals_that_of_one_device(runs, spread, task):
    """To float32 rounding: a sum over the batch in another order, 8 times, at a step size of 0.1.
    A batch that lost its other half would be off by ten thousand times as much."""
    one, other = runs[0] / "1" / task, runs[0] / spread / task
    for mine, theirs in zip(*(RunDirectory(p).read_metrics() for p in (one, other)), strict=True):
        assert list(mine) == list(theirs)
        del mine["seconds"], theirs["seconds"]
        np.testing.assert_allclose([*mine.values()], [*theirs.values()], rtol=1e-5)
    newest = "checkpoint/epoch-000002/arrays.npz"
    with np.load(one / newest) as mine, np.load(other / newest) as theirs:
        assert list(mine) == list(theirs)
        for name in mine:
            np.testing.assert_allclose(mine[name], theirs[name], rtol=1e-5, atol=1e-6)


def test_the_configuration_tells_the_devices(runs):
    devices = {
        spread: RunDirectory(runs[0] / spread / "bandit").read_config()["device"]
        for spread in ("1", "2", "processes")
    }
    assert devices == {
        "1": "1 x cpu, float32",
        "2": "2 x cpu, float32",
        "processes": "2 x cpu in 2 processes, float32",
    }


@pytest.mark.parametrize(("spread", "batch", "tested"), [("1", 10, 12), ("2", 5, 6)])
def test_each_device_has_its_part_of_the_images_only(runs, spread, batch, tested):
    """As compiled: images of 36 pixels, whose numbers are those of one device."""
    shapes = json.loads(runs[1][spread].splitlines()[-1].removeprefix("shapes "))
    assert f"{batch},36" in shapes["epoch"]
    assert not {"10,36", "5,36"} - {f"{batch},36"} & set(shapes["epoch"])
    sizes = {int(size) for shape in shapes["test"] for size in shape.split(",")[:-1]}
    assert tested in sizes
    assert not {6, 12} - {tested} & sizes


def test_one_process_speaks_for_all(runs):
    assert "epoch 2/2" in runs[1]["processes"]
    assert "epoch" not in runs[1]["silent"].partition("shapes")[0]


def test_one_process_is_told_to_stop_and_all_do(tmp_path, stripes, environment):
    """Then a single one goes on, though with a word about bits."""
    settings = ["--dataset", stripes, "--epochs", 400, "--out", tmp_path, "--batch-size", 24]
    command = ["-m", "hnca", *TRAIN, *settings]
    first, second = start_two(*command, environment=environment)
    metrics = tmp_path / "metrics.jsonl"
    wait_for(first, lambda: lines(metrics) >= 2)
    second.send_signal(signal.SIGINT)
    assert "Go on with" in said(first, 130)
    assert "Traceback" not in said(second, 130)
    done = lines(metrics)
    assert 2 <= done < 400
    last = said(start(*command, "--epochs", done + 1, "--devices", 2, environment=environment))
    assert "bits may differ" in last
    assert f"going on after epoch {done}" in last
    assert lines(metrics) == done + 1


def test_what_the_first_process_refuses_stops_all(tmp_path, stripes, environment):
    command = ["-m", "hnca", *TRAIN, "--dataset", stripes, "--out", tmp_path]
    with RunDirectory(tmp_path).lock():
        for process in start_two(*command, environment=environment):
            assert "another process is at work" in said(process, 1)
