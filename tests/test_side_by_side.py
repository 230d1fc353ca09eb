"""Seeds side by side, and each of them alone: the same files, and the same numbers to rounding."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hnca.lab.cli import main
from hnca.lab.errors import UserError
from hnca.lab.experiments import VAE
from hnca.lab.training import Run, RunDirectory, checkpoint, train, train_side_by_side
from test_cli import stripes as stripes
from test_runs import DATA, TINY, DiesAfter, Killed, Quiet, trainer

SEEDS = (0, 7)
CHEAP = replace(TINY, estimator="reinforce")  # where it does not matter which: fast to compile


@pytest.fixture
def no_curves(monkeypatch):
    """They take a second each to draw."""
    monkeypatch.setattr("hnca.lab.training.run.draw_curves", lambda *_: None)


def alone(path, experiment, seed, reporter=None):
    own, data = replace(experiment, seed=seed), experiment.images(DATA)
    return train(own, data, RunDirectory(path), reporter or Quiet())


def together(path, experiment, reporter=None, seeds=SEEDS):
    runs = [Run(replace(experiment, seed=seed), RunDirectory(path / str(seed))) for seed in seeds]
    return train_side_by_side(runs, experiment.images(DATA), reporter or Quiet())


def assert_same_run(path, other):
    """The same files, settings, metrics and arrays, but for rounding (of float64, in tests)."""
    mine, theirs = RunDirectory(path), RunDirectory(other)
    assert {file.name for file in path.iterdir()} == {file.name for file in other.iterdir()}
    assert mine.read_config()["settings"] == theirs.read_config()["settings"]
    assert list(mine.read_summary()["final"]) == list(theirs.read_summary()["final"])
    for one, two in zip(mine.read_metrics(), theirs.read_metrics(), strict=True):
        assert list(one) == list(two)
        assert min(one.pop("seconds"), two.pop("seconds")) > 0
        np.testing.assert_allclose([*one.values()], [*two.values()], rtol=1e-9)
    kept = [sorted(each.glob("checkpoint/epoch-*/arrays.npz")) for each in (path, other)]
    assert len(kept[0]) == len(kept[1]) == 2
    with np.load(kept[0][-1]) as one, np.load(kept[1][-1]) as two:
        assert list(one) == list(two)
        for name in one:
            np.testing.assert_allclose(one[name], two[name], rtol=1e-8, atol=1e-12)


@pytest.mark.slow
def test_seeds_side_by_side_equal_each_alone(tmp_path, no_curves):
    experiment = VAE(units=(3,), epochs=3, batch_size=12, eval_every=2, eval_samples=1)
    reporter = Quiet()
    summaries = together(tmp_path, experiment, reporter)
    alone(tmp_path / "alone", experiment, SEEDS[1])
    assert_same_run(tmp_path / str(SEEDS[1]), tmp_path / "alone")
    for seed, summary in zip(SEEDS, summaries, strict=True):
        assert RunDirectory(tmp_path / str(seed)).read_summary() == summary
    firsts = [RunDirectory(tmp_path / str(seed)).read_metrics()[0] for seed in SEEDS]
    elbos, seconds = ([first[name] for first in firsts] for name in ("train_elbo", "seconds"))
    assert len(set(elbos)) == len(SEEDS)
    np.testing.assert_allclose(reporter.entries[0]["train_elbo"], np.mean(elbos))
    np.testing.assert_allclose(reporter.entries[0]["seconds"], np.sum(seconds))  # each its share


class Stages(Quiet):
    def __init__(self):
        super().__init__()
        self.stages = []

    def begin(self, epochs, done, steps):
        self.stages.append((done, steps // 4))  # a run has 4 steps


@pytest.mark.slow
def test_those_behind_catch_up_first(tmp_path, no_curves):
    """From runs that were left, alone, after no, one and two epochs."""
    for seed, epoch in ((1, 1), (7, 2)):
        with pytest.raises(Killed):
            alone(tmp_path / str(seed), CHEAP, seed, DiesAfter(epoch))
    reporter = Stages()
    together(tmp_path, CHEAP, reporter, seeds=(0, 1, 7))
    assert reporter.stages == [(0, 1), (1, 2), (2, 3)]  # epochs done, and runs
    alone(tmp_path / "alone", CHEAP, 1)
    assert_same_run(tmp_path / "1", tmp_path / "alone")


@pytest.mark.filterwarnings("ignore:.* is of an older hnca")  # for want of a manifest
def test_one_that_is_no_longer_finite_is_named_and_the_others_are_kept(tmp_path, no_curves):
    """So that they can go on alone, for example."""
    with pytest.raises(Killed):
        together(tmp_path, CHEAP, DiesAfter(1))
    state, _ = checkpoint.restore(tmp_path / "7" / "checkpoint", trainer(CHEAP).start())
    broken = jax.tree.map(lambda leaf: leaf * jnp.nan, state.graph)
    checkpoint.save(tmp_path / "7" / "checkpoint", replace(state, graph=broken), 1)
    with pytest.raises(UserError, match=r"^seed 7: .* after epoch 2: .*, or go on without it"):
        together(tmp_path, CHEAP)
    done = [len(RunDirectory(tmp_path / str(seed)).read_metrics()) for seed in SEEDS]
    assert done == [2, 1]
    reporter = Quiet()
    alone(tmp_path / "0", CHEAP, 0, reporter)
    assert reporter.done == 2
    alone(tmp_path / "alone", CHEAP, 0)
    assert_same_run(tmp_path / "0", tmp_path / "alone")


def test_all_directories_are_locked(tmp_path):
    with RunDirectory(tmp_path / "7").lock(), pytest.raises(UserError, match="another process"):
        together(tmp_path, TINY)
    with pytest.raises(ValueError, match="in their seed only"):
        train_side_by_side(
            [Run(each, RunDirectory(tmp_path)) for each in (TINY, replace(TINY, units=5))],
            TINY.images(DATA),
            Quiet(),
        )


def test_seeds_on_the_command_line(tmp_path, stripes, capsys):
    settings = ["--units", "3", "--epochs", "1", "--batch-size", "24", "--estimator", "reinforce"]
    settings += ["--layers", "1", "--dataset", str(stripes), "--out", str(tmp_path)]
    with pytest.raises(SystemExit) as leaving:
        main(["train", "bandit", *settings, "--seeds", "4", "2"])
    said = capsys.readouterr()
    assert not leaving.value.code, said.err
    title = "bandit-1-reinforce-batch-size-24-units-3"
    names = [f"{title}-{stripes.name}-{seed}" for seed in (4, 2)]
    assert {each.name for each in tmp_path.iterdir()} == set(names)
    for name in names:
        assert f"{name}/curves.png" in said.out
        assert (tmp_path / name / "curves.png").exists()
