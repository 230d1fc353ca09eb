"""Sweeps on Ray and Dask: real clusters on this machine, and workers that are killed."""

import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from hnca.errors import UserError
from hnca.experiments import Bandit
from hnca.sweep import Scheduler, make_engine, runs_of
from hnca.sweep.progress import progress
from hnca.training import RunDirectory
from test_cli import environment, stripes  # noqa: F401  (fixtures)
from test_sweep import cached  # noqa: F401  (a fixture)

ENDLESS = Bandit("reinforce", epochs=1_000_000, batch_size=8, layers=1, units=3)
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


def carry_out(scheduler, every_turn=lambda: None):
    deadline = time.monotonic() + 240
    while not scheduler.over:
        assert time.monotonic() < deadline
        scheduler.turn(0.02)
        every_turn()


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # by Ray, which then calls exec
@pytest.mark.skipif(not LOCKS.exists(), reason="this system does not tell who has a lock")
def test_a_killed_worker_costs_nothing(tmp_path, stripes, engine):  # noqa: F811
    """SIGKILL in the middle of a run that has no end: another worker goes on with it. Then it is
    stopped, and a shorter sweep completes it."""
    [run] = runs_of([replace(ENDLESS, dataset=str(stripes))])
    path, scheduler = tmp_path / run.name, Scheduler([run], tmp_path, engine)
    epochs = lambda: progress(run, tmp_path).epochs
    killed = []

    def kill_then_stop():
        if not killed and epochs() >= 2:
            killed.extend([holder(path), epochs()])
            assert killed[0] != os.getpid()
            os.kill(killed[0], signal.SIGKILL)
        elif killed and not scheduler.stopping and epochs() > killed[1] + 5:
            assert holder(path) != killed[0]
            scheduler.stop()

    carry_out(scheduler, kill_then_stop)
    assert not scheduler.failed
    last = epochs() + 1
    shorter = run._replace(experiment=replace(run.experiment, epochs=last))
    again = Scheduler([shorter], tmp_path, engine)
    carry_out(again)
    assert again.done == [shorter]
    assert len(RunDirectory(path).read_metrics()) == last


@pytest.mark.parametrize(("engine", "extra"), [("ray", "ray"), ("dask", "dask")])
def test_a_missing_library_is_named(monkeypatch, engine, extra):
    def missing(name):
        raise ModuleNotFoundError(name)

    monkeypatch.setattr("hnca.sweep.clusters.import_module", missing)
    with pytest.raises(UserError, match=rf"pip install 'hnca\[{extra}\]'"):
        make_engine(engine)
