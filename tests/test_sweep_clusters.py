"""Sweeps on Ray and Dask: real clusters on this machine, and workers that are killed."""

import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from hnca.lab.errors import UserError
from hnca.lab.experiments import Bandit
from hnca.lab.sweep import Scheduler, make_engine, run_status, runs_of
from hnca.lab.training import RunDirectory
from test_cli import environment, stripes  # noqa: F401  (fixtures)
from test_sweep import cached  # noqa: F401  (a fixture)

TINY = Bandit("reinforce", batch_size=24, layers=1, units=3)
LOCKS = Path("/proc/locks")


def holder(path) -> int:
    """The process that has the lock of a run."""
    inode = (path / ".lock").stat().st_ino
    fields = [line.split() for line in LOCKS.read_text().splitlines()]
    return next(int(each[4]) for each in fields if each[5].endswith(f":{inode}"))


@pytest.fixture(params=["ray", "dask"])
def engine(request, cached, monkeypatch):  # noqa: F811
    pytest.importorskip({"ray": "ray", "dask": "distributed"}[request.param])
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:9")  # nobody is there, and nobody asks
    engine = make_engine(request.param, workers=2)
    yield engine
    engine.close(at_once=True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # by Ray, which then calls exec
@pytest.mark.skipif(not LOCKS.exists(), reason="this system does not tell who has a lock")
def test_a_killed_worker_costs_nothing(tmp_path, stripes, engine):  # noqa: F811
    """SIGKILL in the middle of the longest run, and every run is complete in the end."""
    sizes = enumerate((300, 20, 20))
    plan = [replace(TINY, dataset=str(stripes), seed=seed, epochs=epochs) for seed, epochs in sizes]
    runs = runs_of(plan)
    scheduler, path = Scheduler(runs, tmp_path, engine), tmp_path / runs[0].name
    killed, deadline = None, time.monotonic() + 240
    while not scheduler.over:
        assert time.monotonic() < deadline
        scheduler.turn(0.02)
        if killed is None and run_status(runs[0], tmp_path).epochs >= 2:
            killed = holder(path)
            assert killed != os.getpid()
            os.kill(killed, signal.SIGKILL)
            assert run_status(runs[0], tmp_path).state == "begun"
    assert killed is not None
    assert not scheduler.failed
    assert [run_status(run, tmp_path).state for run in runs] == ["done"] * 3
    assert len(RunDirectory(path).read_metrics()) == 300


def test_an_address_where_nobody_is_gets_one_line(monkeypatch, capfd):
    pytest.importorskip("ray")
    monkeypatch.setattr("hnca.lab.sweep.engines.RAY_TIMEOUT", 4.0)
    with pytest.raises(
        UserError, match=r"no Ray cluster at 127\.0\.0\.1:9: no answer within 4 sec"
    ):
        make_engine("ray", address="127.0.0.1:9")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(("engine", "extra"), [("ray", "ray"), ("dask", "dask")])
def test_a_missing_library_is_named(monkeypatch, engine, extra):
    def missing(name):
        raise ModuleNotFoundError(name)

    monkeypatch.setattr("hnca.lab.sweep.engines.import_module", missing)
    with pytest.raises(UserError, match=rf"pip install 'hnca\[{extra}\]'"):
        make_engine(engine)
