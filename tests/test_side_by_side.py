"""Seeds side by side, and each of them alone: the same files, and the same numbers to rounding."""

import json
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hnca.cli import main
from hnca.errors import UserError
from hnca.experiments import VAE, experiment_from
from hnca.training import Engine, Run, RunDirectory, checkpoint, train, train_side_by_side
from test_cli import stripes as stripes
from test_runs import DATA, TINY, DiesAfter, Killed, Quiet

SEEDS = (0, 1, 7)
EXPERIMENTS = {
    "bandit": replace(TINY, layers=2),
    "vae": VAE(layers=2, units=(3,), epochs=3, batch_size=12, eval_every=2, eval_samples=3),
}


def alone(path, experiment, seed, reporter=None):
    return train(replace(experiment, seed=seed), DATA, RunDirectory(path), reporter or Quiet())


def together(path, experiment, reporter=None, seeds=SEEDS):
    runs = [Run(replace(experiment, seed=seed), RunDirectory(path / str(seed))) for seed in seeds]
    return train_side_by_side(runs, DATA, reporter or Quiet())


@pytest.fixture(scope="module", params=EXPERIMENTS)
def reference(request, tmp_path_factory):
    """An experiment, and its runs one by one."""
    experiment, path = EXPERIMENTS[request.param], tmp_path_factory.mktemp("alone")
    for seed in SEEDS:
        alone(path / str(seed), experiment, seed)
    return experiment, path


def assert_same_run(path, other):
    """The same files, the same metrics and arrays but for rounding (of float64, in tests), and
    their own seed."""
    files = [{file.name for file in each.iterdir()} for each in (path, other)]
    assert files[0] == files[1]
    settings = [RunDirectory(each).read_config()["settings"] for each in (path, other)]
    assert settings[0] == settings[1]
    for mine, theirs in zip(
        *(RunDirectory(each).read_metrics() for each in (path, other)), strict=True
    ):
        assert list(mine) == list(theirs)
        assert mine.pop("seconds") > 0 < theirs.pop("seconds")
        np.testing.assert_allclose([*mine.values()], [*theirs.values()], rtol=1e-9)
    final = [json.loads((each / "summary.json").read_text())["final"] for each in (path, other)]
    assert list(final[0]) == list(final[1])
    assert_same_state(path, other)


def assert_same_state(path, other):
    names = [
        sorted(file.name for file in (each / "checkpoint").iterdir()) for each in (path, other)
    ]
    assert names[0] == names[1]
    newest = [each / "checkpoint" / names[0][-1] / "arrays.npz" for each in (path, other)]
    with np.load(newest[0]) as mine, np.load(newest[1]) as theirs:
        assert list(mine) == list(theirs)
        for name in mine:
            np.testing.assert_allclose(mine[name], theirs[name], rtol=1e-8, atol=1e-12)


def test_seeds_side_by_side_equal_each_alone(reference, tmp_path):
    experiment, path = reference
    reporter = Quiet()
    summaries = together(tmp_path, experiment, reporter)
    for seed, summary in zip(SEEDS, summaries, strict=True):
        assert_same_run(tmp_path / str(seed), path / str(seed))
        assert json.loads((tmp_path / str(seed) / "summary.json").read_text()) == summary
        assert experiment_from(RunDirectory(tmp_path / str(seed)).read_config()).seed == seed
    name = f"train_{experiment.measure}"
    firsts = [RunDirectory(tmp_path / str(seed)).read_metrics()[0][name] for seed in SEEDS]
    assert len(set(firsts)) == len(SEEDS)  # each has its own data order and network
    np.testing.assert_allclose(reporter.entries[0][name], np.mean(firsts))


class Stages(Quiet):
    def __init__(self):
        super().__init__()
        self.stages = []

    def begin(self, epochs, done, steps):
        self.stages.append((done, steps // 4))


def test_those_behind_catch_up_first(reference, tmp_path):
    """From runs that were left alone after no, one and two epochs."""
    experiment, path = reference
    if experiment.name == "vae":
        pytest.skip("the same for all experiments")
    for seed, epoch in ((1, 1), (7, 2)):
        with pytest.raises(Killed):
            alone(tmp_path / str(seed), experiment, seed, DiesAfter(epoch))
    reporter = Stages()
    together(tmp_path, experiment, reporter)
    assert reporter.stages == [(0, 1), (1, 2), (2, 3)]  # epochs done, and runs
    for seed in SEEDS:
        assert_same_run(tmp_path / str(seed), path / str(seed))


def test_a_run_goes_on_alone(reference, tmp_path):
    experiment, path = reference
    with pytest.raises(Killed):
        together(tmp_path, experiment, DiesAfter(2))
    reporter = Quiet()
    alone(tmp_path / "1", experiment, 1, reporter)
    assert reporter.done == 2
    assert_same_run(tmp_path / "1", path / "1")


def test_one_that_is_no_longer_finite_is_named_and_the_others_are_kept(tmp_path):
    with pytest.raises(Killed):
        together(tmp_path, TINY, DiesAfter(1))
    start = Engine(TINY, DATA).start()
    state, _ = checkpoint.restore(tmp_path / "1" / "checkpoint", start)
    broken = jax.tree.map(lambda leaf: leaf * jnp.nan, state.graph)
    checkpoint.save(tmp_path / "1" / "checkpoint", replace(state, graph=broken), 1)
    with pytest.raises(UserError, match=r"^seed 1: .* after epoch 2: .*, or go on without it"):
        together(tmp_path, TINY)
    done = [len(RunDirectory(tmp_path / str(seed)).read_metrics()) for seed in SEEDS]
    assert done == [2, 1, 2]
    together(tmp_path, TINY, seeds=(0, 7))
    assert (tmp_path / "0" / "summary.json").exists()


def test_all_directories_are_locked(tmp_path):
    with RunDirectory(tmp_path / "7").lock(), pytest.raises(UserError, match="another process"):
        together(tmp_path, TINY)
    with pytest.raises(ValueError, match="in their seed only"):
        train_side_by_side(
            [Run(each, RunDirectory(tmp_path)) for each in (TINY, replace(TINY, units=5))],
            DATA,
            Quiet(),
        )


def test_seeds_on_the_command_line(tmp_path, stripes, capsys):
    settings = ["--units", "3", "--epochs", "1", "--batch-size", "24", "--estimator", "reinforce"]
    settings += ["--layers", "1", "--dataset", str(stripes), "--out", str(tmp_path)]
    with pytest.raises(SystemExit) as leaving:
        main(["train", "bandit", *settings, "--seeds", "4", "2"])
    said = capsys.readouterr()
    assert not leaving.value.code, said.err
    names = [f"bandit-1-reinforce-{stripes.name}-{seed}" for seed in (4, 2)]
    assert {each.name for each in tmp_path.iterdir()} == set(names)
    for name in names:
        assert f"{name}/curves.png" in said.out
        assert (tmp_path / name / "curves.png").exists()
