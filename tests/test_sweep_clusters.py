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
from hnca.sweep.progress import progress, recent
from test_cli import environment, stripes  # noqa: F401  (fixtures)
from test_sweep import cached  # noqa: F401  (a fixture)

TINY = Bandit("reinforce", epochs=100, batch_size=8, layers=1, units=3)
LOCKS = Path("/proc/locks")


def holder(path) -> int:
    """The process that has the lock of a run."""
    inode = (path / ".lock").stat().st_ino
    fields = [line.split() for line in LOCKS.read_text().splitlines()]
    return next(int(each[4]) for each in fields if each[5].endswith(f":{inode}"))


@pytest.fixture(params=["ray", "dask"])
def engine(request, cached):  # noqa: F811
    pytest.importorskip({"ray": "ray", "dask": "distributed"}[request.param])
    engine = make_engine(request.param, workers=2)
    yield engine
    engine.close(at_once=True)


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # by Ray, which then calls exec
@pytest.mark.skipif(not LOCKS.exists(), reason="this system does not tell who has a lock")
def test_a_killed_worker_costs_nothing(tmp_path, stripes, engine):  # noqa: F811
    """SIGKILL in the middle of a run, and every run is complete in the end."""
    runs = runs_of([replace(TINY, dataset=str(stripes), seed=seed) for seed in range(3)])
    scheduler = Scheduler(runs, tmp_path, engine)
    killed, deadline = None, time.monotonic() + 240
    while not scheduler.over:
        scheduler.turn(0.05)
        assert time.monotonic() < deadline
        if killed is None and len(recent(runs[0], tmp_path)) >= 2:
            killed = holder(tmp_path / runs[0].name)
            assert killed != os.getpid()
            os.kill(killed, signal.SIGKILL)
            assert progress(runs[0], tmp_path).state == "begun"
    assert killed is not None
    assert not scheduler.failed
    assert [progress(run, tmp_path).state for run in runs] == ["done"] * 3


@pytest.mark.parametrize(("engine", "extra"), [("ray", "ray"), ("dask", "dask")])
def test_a_missing_library_is_named(monkeypatch, engine, extra):
    def missing(name):
        raise ModuleNotFoundError(name)

    monkeypatch.setattr("hnca.sweep.clusters.import_module", missing)
    with pytest.raises(UserError, match=rf"pip install 'hnca\[{extra}\]'"):
        make_engine(engine)
