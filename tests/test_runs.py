"""Runs on disk, in this process: what is written, what is refused, what is not lost."""

import errno
import json
import os
import shutil
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import hnca
from hnca.data import Dataset
from hnca.errors import UserError
from hnca.experiments import Bandit, ConvBandit, binarise
from hnca.training import Engine, RunDirectory, checkpoint, train

RANDOM = np.random.default_rng(0)
LABELS = RANDOM.integers(3, size=60).astype(np.uint8)
# Three kinds of stripes, so that there is something to learn.
IMAGES = np.repeat(np.eye(3, dtype=np.uint8)[LABELS] * 250, 12, axis=1).reshape(60, 6, 6) + 2
DATA = Dataset("stripes", IMAGES[:48], LABELS[:48], IMAGES[48:], LABELS[48:], "a test")
TINY = Bandit(epochs=3, layers=1, units=4, batch_size=10, learning_rate=1e-2)


class Quiet:
    def __init__(self):
        self.lines, self.entries = [], []

    def say(self, message):
        self.lines.append(message)

    def begin(self, epochs, done, steps):
        self.done = done

    def epoch(self, entry):
        self.entries.append(entry)


class Killed(BaseException):
    """Stands for a SIGKILL: nothing catches it."""


class DiesAfter(Quiet):
    def __init__(self, epoch):
        super().__init__()
        self.last = epoch

    def epoch(self, entry):
        if entry["epoch"] == self.last:
            raise Killed


def run(path, experiment=TINY, reporter=None):
    return train(experiment, DATA, RunDirectory(path), reporter or Quiet())


def outcome(path):
    """Everything that must not depend on interruptions: metrics and the final arrays."""
    entries = RunDirectory(path).read_metrics()
    for entry in entries:
        del entry["seconds"]
    newest = max((path / "checkpoint").glob("epoch-*"))
    with np.load(newest / "arrays.npz") as arrays:
        return entries, {name: array.tobytes() for name, array in arrays.items()}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "finished"
    return path, run(path)


def test_a_run_leaves_its_files(finished):
    path, summary = finished
    names = {file.name for file in path.iterdir() if file.name[0] != "."}
    assert names == {"config.json", "metrics.jsonl", "summary.json", "curves.png", "checkpoint"}
    entries = RunDirectory(path).read_metrics()
    layers = {"gradient_variance/h1", "gradient_variance/action"}
    fixed = {"epoch", "step", "seconds", "train_accuracy", "test_accuracy", "gradient_variance"}
    assert all(set(entry) == fixed | layers for entry in entries)
    assert [(entry["epoch"], entry["step"]) for entry in entries] == [(1, 4), (2, 8), (3, 12)]
    assert json.loads((path / "summary.json").read_text()) == summary
    assert summary["final"] == entries[-1]
    config = json.loads((path / "config.json").read_text())
    assert Bandit(**config["settings"]) == TINY
    assert config["data"]["fingerprint"] == DATA.fingerprint
    assert config["versions"]["jax"] == jax.__version__
    kept = sorted(each.name for each in (path / "checkpoint").iterdir())
    assert kept == ["epoch-000002", "epoch-000003"]


def test_the_variance_is_a_mean_over_parameters(finished):
    graph = Engine(TINY, DATA).graph
    counts = hnca.parameter_counts(graph)
    for entry in RunDirectory(finished[0]).read_metrics():
        total = sum(count * entry[f"gradient_variance/{name}"] for name, count in counts.items())
        np.testing.assert_allclose(entry["gradient_variance"], total / sum(counts.values()))


@pytest.mark.parametrize("state", ["as it was", "half a line", "a line too many", "aside"])
def test_a_killed_run_ends_in_the_same_bits(finished, tmp_path, state):
    """In any state that a kill can leave behind."""
    with pytest.raises(Killed):
        run(tmp_path, reporter=DiesAfter(2))
    metrics = tmp_path / "metrics.jsonl"
    if state == "half a line":
        metrics.write_text(metrics.read_text() + '{"epoch": 3, "st')
    elif state == "a line too many":  # killed between the metrics and the checkpoint
        shutil.rmtree(tmp_path / "checkpoint" / "epoch-000002")
    elif state == "aside":  # killed while it wrote a checkpoint
        (tmp_path / "checkpoint" / ".aside").mkdir()
        (tmp_path / "checkpoint" / ".aside" / "arrays.npz").write_bytes(b"half")
    reporter = Quiet()
    run(tmp_path, reporter=reporter)
    assert reporter.done == (1 if state == "a line too many" else 2)
    assert outcome(tmp_path) == outcome(finished[0])


def test_a_finished_run_does_nothing_and_goes_on_for_more_epochs(finished, tmp_path):
    shutil.copytree(finished[0], tmp_path / "copy")
    again = Quiet()
    assert run(tmp_path / "copy", reporter=again) == finished[1]
    assert not again.entries
    longer = replace(TINY, epochs=5)
    run(tmp_path / "copy", longer)
    run(tmp_path / "whole", longer)
    assert outcome(tmp_path / "copy") == outcome(tmp_path / "whole")


@pytest.mark.parametrize("file", ["arrays.npz", "manifest.json"])
def test_a_damaged_checkpoint_is_passed_over(finished, tmp_path, file):
    with pytest.raises(Killed):
        run(tmp_path, reporter=DiesAfter(2))
    path = tmp_path / "checkpoint" / "epoch-000002" / file
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 255
    path.write_bytes(content)
    reporter = Quiet()
    with pytest.warns(UserWarning, match="epoch-000002 is damaged"):
        run(tmp_path, reporter=reporter)
    assert reporter.done == 1
    assert outcome(tmp_path) == outcome(finished[0])


def test_no_whole_checkpoint_is_an_error(finished, tmp_path):
    shutil.copytree(finished[0], tmp_path, dirs_exist_ok=True)
    for path in (tmp_path / "checkpoint").glob("*/arrays.npz"):
        path.write_bytes(b"")
    with (
        pytest.warns(UserWarning, match="damaged"),
        pytest.raises(UserError, match="delete it to start"),
    ):
        run(tmp_path)


def test_one_process_at_a_time(tmp_path):
    with RunDirectory(tmp_path).lock(), pytest.raises(UserError, match="another process"):
        run(tmp_path)


def test_another_run_is_refused_and_left_alone(finished, tmp_path):
    shutil.copytree(finished[0], tmp_path / "copy")
    with pytest.raises(UserError, match="units 4, not 5"):
        run(tmp_path / "copy", replace(TINY, units=5))
    assert outcome(tmp_path / "copy") == outcome(finished[0])
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").write_text("...")
    with pytest.raises(UserError, match=r"thesis.tex"):
        run(tmp_path / "home")


def test_a_full_disk_loses_nothing(finished, tmp_path, monkeypatch):
    with pytest.raises(Killed):
        run(tmp_path, reporter=DiesAfter(1))

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(OSError, match="No space left"):
            run(tmp_path)
    run(tmp_path)
    assert outcome(tmp_path) == outcome(finished[0])


def test_nan_stops_the_run_and_keeps_the_last_good_checkpoint(tmp_path, monkeypatch):
    schedule = lambda step: jnp.where(step < 9, 1e-2, jnp.nan)  # in the third epoch of four steps
    optimizer = hnca.maximize(optax.adam(schedule))
    monkeypatch.setattr(Bandit, "make_optimizer", lambda self: optimizer)
    with pytest.raises(UserError, match="no longer finite after epoch 3"):
        run(tmp_path)
    state, epoch = checkpoint.restore(tmp_path / "checkpoint", Engine(TINY, DATA).start())
    assert epoch == 2
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state.graph))
    assert [entry["epoch"] for entry in RunDirectory(tmp_path).read_metrics()] == [1, 2]


def test_an_epoch_sees_every_image_once_in_a_fresh_order_and_binarisation():
    engine = Engine(TINY, DATA)
    one, two = (engine._deal((engine.train_set, jax.random.key(seed))) for seed in (1, 2))
    images, labels, keys = one
    assert images.shape == (4, 10, 36)
    known = zip(IMAGES[:48].reshape(48, 36), LABELS[:48], strict=True)
    rows = {(*image, label) for image, label in known}
    dealt = zip(images.reshape(40, 36), labels.reshape(40), strict=True)
    assert {(*np.asarray(image), int(label)) for image, label in dealt} <= rows
    assert not np.array_equal(labels, two[1])
    assert len({tuple(np.asarray(jax.random.key_data(key))) for key in [*keys, *two[2]]}) == 8


def test_pixels_are_one_with_their_intensity():
    images = jnp.tile(jnp.array([0, 51, 255], jnp.uint8), (20_000, 1))
    means = binarise(jax.random.key(0), images).mean(axis=0)
    assert means[0] == 0
    assert means[2] == 1
    assert abs(means[1] - 0.2) < 5 * (0.2 * 0.8 / 20_000) ** 0.5


def test_a_conv_run(tmp_path):
    experiment = ConvBandit(epochs=1, units=3, channels=2, batch_size=24)
    summary = run(tmp_path, experiment)
    assert 0 <= summary["final"]["train_accuracy"] <= 1
    assert set(hnca.parameter_counts(Engine(experiment, DATA).graph)) == {"h1", "action"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"estimator": "hcna"}, "choose one of hnca"),
        ({"estimator": "disarm"}, "evaluates the objective again"),
        ({"epochs": 0}, "--epochs must be above 0"),
        ({"batch_size": 49}, "--batch-size 49 is more than 48 images"),
        ({"train_size": 100}, "--train-size 100"),
        ({"layers": 0}, "1 or more"),
    ],
)
def test_settings_that_make_no_sense_leave_nothing_behind(tmp_path, settings, message):
    with pytest.raises(UserError, match=message):
        run(tmp_path / "run", Bandit(**settings))
    assert not (tmp_path / "run").exists()
