"""Runs on disk, in this process: what is written, what is refused, what is not lost."""

import errno
import json
import os
import re
import shutil
from dataclasses import asdict, replace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import hnca
from enumeration import assert_trees_close
from hnca.lab.data import Dataset
from hnca.lab.errors import UserError
from hnca.lab.experiments import VAE, Bandit, ConvBandit, binarise, experiment_from, task_of
from hnca.lab.report import read_runs
from hnca.lab.training import RunDirectory, Trainer, checkpoint, train
from hnca.lab.training.directory import Ledger
from hnca.lab.training.trainer import Keys

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
    return train(experiment, experiment.images(DATA), RunDirectory(path), reporter or Quiet())


def trainer(experiment=TINY, data=DATA):
    return Trainer(experiment, experiment.images(data))


@pytest.mark.parametrize("at_once", [3, 7])
def test_a_test_does_not_depend_on_how_many_rows_are_taken_at_a_time(at_once, monkeypatch):
    """Each has a key of its own; that they are no multiple is no matter."""
    tested = lambda: trainer().test([trainer().start().graph], [0], 1)[0]
    usual = tested()
    monkeypatch.setattr("hnca.lab.training.trainer.CACHED_BATCH", at_once)
    assert_trees_close(tested(), usual, rtol=1e-6)


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
    layers = {"gradient_variance/h1", "gradient_variance/action", "active_units/h1"}
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
    graph = trainer().graph
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
        (tmp_path / "checkpoint" / ".epoch-000003.aside").mkdir()
        (tmp_path / "checkpoint" / ".epoch-000003.aside" / "arrays.npz").write_bytes(b"half")
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


def test_fewer_epochs_than_there_are_change_nothing(finished, tmp_path):
    shutil.copytree(finished[0], tmp_path, dirs_exist_ok=True)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir() if file.is_file()}
    assert run(tmp_path, replace(TINY, epochs=2)) == finished[1]
    after = {file.name: file.read_bytes() for file in tmp_path.iterdir() if file.is_file()}
    assert after == before


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


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """The same run with another seed."""
    path = tmp_path_factory.mktemp("runs") / "other"
    run(path, replace(TINY, seed=7))
    return path


def epoch_of(path, number):
    return path / "checkpoint" / f"epoch-00000{number}"


def swap(path, other):
    for one, two in ((2, 4), (3, 2), (4, 3)):
        epoch_of(path, one).rename(epoch_of(path, two))


def copy_over(path, other):
    shutil.rmtree(epoch_of(path, 3))
    shutil.copytree(epoch_of(path, 2), epoch_of(path, 3))


def take_checkpoints(path, other):
    shutil.rmtree(path / "checkpoint")
    shutil.copytree(other / "checkpoint", path / "checkpoint")


def take_the_last_checkpoint(path, other):
    shutil.rmtree(epoch_of(path, 3))
    shutil.copytree(epoch_of(other, 3), epoch_of(path, 3))


def take_metrics(path, other):
    shutil.copy(other / "metrics.jsonl", path / "metrics.jsonl")


def change_a_digit(line):
    def change(path, other):
        lines = (path / "metrics.jsonl").read_text().splitlines(keepends=True)
        entry = json.loads(lines[line - 1])
        entry["train_accuracy"] += 1e-12
        lines[line - 1] = json.dumps(entry) + "\n"
        (path / "metrics.jsonl").write_text("".join(lines))

    return change


def lose_the_manifests_marks(path):
    """As it was written by an older version."""
    for manifest in (path / "checkpoint").glob("*/manifest.json"):
        record = json.loads(manifest.read_text())
        manifest.write_text(json.dumps({name: record[name] for name in ("sha256", "dtypes")}))


@pytest.mark.filterwarnings("ignore:the checkpoint")  # each of the two is told of
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (swap, "epoch-000003 is of epoch 2: skipped"),
        (take_checkpoints, "epoch-000003 is of another run: skipped"),
        (take_metrics, "does not go with metrics.jsonl"),
        (change_a_digit(2), "does not go with metrics.jsonl"),
    ],
)
def test_what_belongs_elsewhere_is_refused(finished, other, tmp_path, change, message):
    shutil.copytree(finished[0], tmp_path, dirs_exist_ok=True)
    change(tmp_path, other)
    entries = RunDirectory(tmp_path).read_metrics()
    with (
        pytest.warns(UserWarning, match=message),
        pytest.raises(UserError, match=r"can be used: put back .* or delete .* to start again"),
    ):
        run(tmp_path, replace(TINY, epochs=4))
    assert RunDirectory(tmp_path).read_metrics() == entries


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (copy_over, "epoch-000003 is of epoch 2: skipped"),
        (take_the_last_checkpoint, "epoch-000003 is of another run: skipped"),
        (change_a_digit(3), "epoch-000003 does not go with metrics.jsonl"),
    ],
)
def test_what_belongs_here_is_gone_on_from(finished, other, tmp_path, change, message):
    shutil.copytree(finished[0], tmp_path, dirs_exist_ok=True)
    change(tmp_path, other)
    with pytest.warns(UserWarning, match=message):
        run(tmp_path)
    assert outcome(tmp_path) == outcome(finished[0])


@pytest.mark.parametrize("change", [change_a_digit(1), take_metrics, take_checkpoints, swap])
def test_a_report_leaves_out_what_does_not_belong_together(finished, other, tmp_path, change):
    shutil.copytree(finished[0], tmp_path, dirs_exist_ok=True)
    assert len(read_runs([tmp_path]).runs) == 1
    change(tmp_path, other)
    found = read_runs([tmp_path])
    assert not found.runs
    assert re.search(r"^checkpoint: epoch-000003 (is of|does not go)", found.damaged[0].reason)


def test_an_older_run_goes_on_with_a_warning(finished, tmp_path):
    with pytest.raises(Killed):
        run(tmp_path, reporter=DiesAfter(2))
    lose_the_manifests_marks(tmp_path)
    with pytest.warns(UserWarning, match="epoch-000002 is of an older hnca: .* cannot be checked"):
        run(tmp_path)
    assert outcome(tmp_path) == outcome(finished[0])


@pytest.mark.filterwarnings("ignore:the checkpoint")
def test_the_steps_of_an_older_checkpoint_are_counted(finished, other, tmp_path):
    shutil.copytree(finished[0], tmp_path, dirs_exist_ok=True)
    lose_the_manifests_marks(tmp_path)
    swap(tmp_path, other)
    with (
        pytest.warns(UserWarning, match="has 8 steps behind it, but the metrics say 12"),
        pytest.raises(UserError, match="to start again"),
    ):
        run(tmp_path)


def test_a_run_may_get_a_setting(finished):
    """In a later version of the software, its checkpoints are still its own; another's are not."""
    config = RunDirectory(finished[0]).read_config()
    later = config | {"settings": config["settings"] | {"later": 3}}
    [one], [two] = (Ledger(each).add_all([{"epoch": 1, "step": 4}]) for each in (config, later))
    assert one == two
    other = {name: value for name, value in config.items() if name != "identity"}
    assert one.run == Ledger(other).add({"epoch": 1, "step": 4}).run
    assert one.run != Ledger(other | {"task": "vae"}).add({"epoch": 1, "step": 4}).run


def test_an_empty_summary_is_refused_before_training(finished, tmp_path):
    shutil.copytree(finished[0], tmp_path, dirs_exist_ok=True)
    (tmp_path / "summary.json").write_text("")
    with pytest.raises(UserError, match=r"summary.json is damaged: .*; delete it"):
        run(tmp_path, replace(TINY, epochs=4))
    assert len(RunDirectory(tmp_path).read_metrics()) == 3


def test_a_summary_of_another_run_is_written_anew(finished, other, tmp_path):
    shutil.copytree(finished[0], tmp_path, dirs_exist_ok=True)
    shutil.copy(other / "summary.json", tmp_path)
    assert run(tmp_path) == finished[1]
    assert RunDirectory(tmp_path).read_summary() == finished[1]


def test_no_whole_checkpoint_is_an_error(finished, tmp_path):
    shutil.copytree(finished[0], tmp_path, dirs_exist_ok=True)
    for path in (tmp_path / "checkpoint").glob("*/arrays.npz"):
        path.write_bytes(b"")
    with (
        pytest.warns(UserWarning, match="damaged"),
        pytest.raises(UserError, match="to start again"),
    ):
        run(tmp_path)


def test_one_process_at_a_time(tmp_path):
    with RunDirectory(tmp_path).lock(), pytest.raises(UserError, match="another process"):
        run(tmp_path)


def test_other_versions_are_told_and_kept(finished, tmp_path):
    shutil.copytree(finished[0], tmp_path, dirs_exist_ok=True)
    config = json.loads((tmp_path / "config.json").read_text())
    config["versions"]["jax"] = "0.1.2"
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.warns(UserWarning, match="bits may differ"):
        run(tmp_path, replace(TINY, epochs=4))
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["versions"]["jax"] == jax.__version__
    assert [each["versions"]["jax"] for each in config["earlier"]] == ["0.1.2"]


def test_another_kernel_is_told_and_kept(tmp_path):
    """Runs from before there was a native one do not name theirs: it was pure."""
    directory = RunDirectory(tmp_path)
    old = {"task": "vae", "settings": {}, "data": {}, "versions": {}, "device": "cpu"}
    directory.begin(old)
    directory.begin(old | {"kernel": "pure JAX"})  # without a warning: those are errors here
    with pytest.warns(UserWarning, match=r"another kernel \(pure JAX then, native, AVX2 now\)"):
        directory.begin(old | {"kernel": "native, AVX2"})
    assert [each["kernel"] for each in directory.read_config()["earlier"]] == ["pure JAX"]


def test_a_changed_experiment_file_is_told(tmp_path):
    directory = RunDirectory(tmp_path)
    run = {"task": "mine.py:Mine", "settings": {}, "data": {}, "device": "cpu", "kernel": "pure"}
    directory.begin(run | {"versions": {"experiment": "abc"}})
    with pytest.warns(UserWarning, match="the experiment's file has changed"):
        directory.begin(run | {"versions": {"experiment": "def"}})
    file, kernel = "the experiment's file has changed", r"another kernel \(pure then, native now\)"
    with pytest.warns(UserWarning, match=file), pytest.warns(UserWarning, match=kernel):
        directory.begin(run | {"versions": {"experiment": "ghi"}, "kernel": "native"})


def test_other_data_of_the_same_name_is_refused(tmp_path):
    directory = RunDirectory(tmp_path)
    run = {"task": "mine.py:Mine", "settings": {}, "device": "cpu", "kernel": "pure JAX"}
    directory.begin(run | {"data": {"name": "points", "fingerprint": "abc"}, "versions": {}})
    with pytest.raises(UserError, match="holds a run on other data than this 'points': choose"):
        directory.check(run | {"data": {"name": "points", "fingerprint": "def"}})
    with pytest.raises(UserError, match="holds a run on points, not rings: choose"):
        directory.check(run | {"data": {"name": "rings", "fingerprint": "def"}})


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
    monkeypatch.setattr(Bandit, "make_optimizer", lambda self, steps: optimizer)
    with pytest.raises(UserError, match="no longer finite after epoch 3"):
        run(tmp_path)
    state, epoch = checkpoint.restore(tmp_path / "checkpoint", trainer().start())
    assert epoch == 2
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state.graph))
    assert [entry["epoch"] for entry in RunDirectory(tmp_path).read_metrics()] == [1, 2]


def test_an_epoch_sees_every_image_once_in_a_fresh_order_and_binarisation():
    """With images that carry their number in a pixel."""
    numbered = np.full((40, 6, 6), 128, np.uint8)
    numbered[:, 0, 0] = np.arange(40)
    labels = np.arange(40, dtype=np.uint8) % 3
    deals = trainer(TINY, Dataset("numbered", numbered, labels, IMAGES, LABELS, "a test"))
    orders, pixels = [], []
    for epoch in (1, 2):
        key = jax.random.fold_in(Keys.of(TINY.seed).epoch, epoch)
        batches, keys = deals._deal(deals.train_set, key)
        images, dealt_labels = batches["image"], batches["label"]
        assert images.shape == (4, 10, 6, 6)
        order = np.asarray(images[..., 0, 0]).ravel()
        assert sorted(order) == list(range(40))
        np.testing.assert_array_equal(np.asarray(dealt_labels).ravel(), order % 3)
        orders.append(order)
        rows = [
            {"image": image, "label": label}
            for image, label in zip(images, dealt_labels, strict=True)
        ]
        contexts = [deals._step(entry).context["x"] for entry in zip(rows, keys, strict=True)]
        pixels += [np.asarray(x)[:, 1:] for x in contexts]
    assert not np.array_equal(*orders)
    for first in range(8):
        assert all(not np.array_equal(pixels[first], pixels[other]) for other in range(first))


def test_settings_come_back_from_the_configuration():
    for experiment in (TINY, ConvBandit(seed=3), VAE(units=(4, 3), categories=3)):
        task = task_of(type(experiment))
        config = json.loads(json.dumps({"task": task, "settings": asdict(experiment)}))
        assert experiment_from(config) == experiment


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layer": 3}, "unknown setting 'layer': did you mean layers"),
        ({"layers": "3"}, "layers must be a whole number, not '3'"),
        ({"optimizer": "adm"}, "optimizer must be one of adam, "),
        ({"epochs": None}, "epochs must be a whole number, not None"),
        (3, "no settings"),
    ],
)
def test_a_wrong_configuration_is_refused_by_name(settings, message):
    with pytest.raises(UserError, match=message):
        experiment_from({"task": "bandit", "settings": settings})


@pytest.mark.parametrize(
    "settings",
    [
        {"layers": 2, "units": (3,), "updates": 7, "downstream_only": False},
        {"estimator": "hnca", "units": (3,), "categories": 3, "optimizer": "sgd"},
        pytest.param({"estimator": "relax", "units": (3,)}, marks=pytest.mark.slow),
    ],
    ids=["ablation", "categorical", "parameters of the method's own"],
)
def test_a_vae_run_ends_in_the_same_bits(tmp_path, settings):
    settings = {"epochs": 2, "batch_size": 12, "eval_every": 2, "eval_samples": 3} | settings
    experiment = VAE(**settings)
    with pytest.raises(Killed):
        run(tmp_path / "killed", experiment, DiesAfter(1))
    run(tmp_path / "killed", experiment)
    summary = run(tmp_path / "whole", experiment)
    assert outcome(tmp_path / "killed") == outcome(tmp_path / "whole")
    first, second = RunDirectory(tmp_path / "whole").read_metrics()
    assert "test_bound" not in first
    assert second["test_bound"] >= -36 * np.log(2) * 3
    encoder = {f"gradient_variance/{name}" for name in trainer(experiment).graph.node_names}
    assert {name for name in second if "variance/" in name} == encoder
    assert summary["final"] == second


def test_the_ablations_reach_the_estimator():
    assert VAE(prune_children=False, estimator="hnca").make_estimator().prune_children is False
    assert VAE(downstream_only=False).make_estimator().downstream_only is False
    assert isinstance(VAE(prune_children=False).make_estimator().baseline, hnca.MovingAverage)


def test_a_summary_has_a_test_though_none_was_due(tmp_path):
    summary = run(tmp_path, replace(TINY, eval_every=2))
    assert "test_accuracy" not in RunDirectory(tmp_path).read_metrics()[-1]
    assert 0 <= summary["final"]["test_accuracy"] <= 1


def test_metrics_that_were_lost_are_measured_again(finished, tmp_path):
    """As after a power cut: the checkpoint is on the disk, the last line is not."""
    with pytest.raises(Killed):
        run(tmp_path, reporter=DiesAfter(2))
    metrics = tmp_path / "metrics.jsonl"
    metrics.write_text(metrics.read_text().splitlines(keepends=True)[0])
    with pytest.warns(UserWarning, match="newer than the metrics"):
        run(tmp_path)
    assert outcome(tmp_path) == outcome(finished[0])


def test_pixels_are_one_with_their_intensity():
    images = jnp.tile(jnp.array([0, 51, 255], jnp.uint8), (20_000, 1))
    means = binarise(jax.random.key(0), images).mean(axis=0)
    assert means[0] == 0
    assert means[2] == 1
    assert abs(means[1] - 0.2) < 5 * (0.2 * 0.8 / 20_000) ** 0.5


def test_a_conv_run(tmp_path):
    experiment = ConvBandit(epochs=1, units=3, channels=2, batch_size=24, estimator="reinforce")
    summary = run(tmp_path, experiment)
    assert 0 <= summary["final"]["train_accuracy"] <= 1
    assert set(hnca.parameter_counts(trainer(experiment).graph)) == {"h1", "action"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"estimator": "hcna"}, "choose one of hnca"),
        ({"estimator": "disarm"}, "evaluates the objective again"),
        ({"epochs": 0}, "--epochs must be above 0"),
        ({"batch_size": 49}, "--batch-size 49 is more than 48 examples"),
        ({"train_size": 100}, "--train-size 100"),
        ({"layers": 0}, "--layers must be above 0"),
        ({"layers": 1_000_000}, "--layers must be 256 or fewer, not 1000000"),
        (
            {"units": 300_000},
            r"would need [\d,.]+ GiB of memory to train, but there is [\d.,]+ GiB",
        ),
        ({"units": 10**20}, "--units must be below 2,147,483,648"),
        ({"seed": 2**32}, "--seed must be from 0"),
    ],
)
def test_settings_that_make_no_sense_leave_nothing_behind(tmp_path, settings, message):
    with pytest.raises(UserError, match=message):
        run(tmp_path / "run", Bandit(**settings))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layers": 0}, "--layers must be above 0"),
        ({"units": (3, 2), "layers": 3}, "one size, or one for each layer"),
        ({"units": (0,)}, "each 1 or more"),
        ({"units": (10**20,)}, "--units must be below"),
        ({"units": (2,) * 300}, "--layers must be 256 or fewer"),
        ({"layers": 10**6}, "--layers must be 256 or fewer"),
        ({"categories": 1}, "--categories must be 2"),
        ({"categories": 3, "estimator": "disarm"}, "is for units of two values"),
        ({"estimator": "loo", "prune_children": False}, "ablations of hnca"),
        ({"eval_samples": 0}, "--eval-samples"),
    ],
)
def test_a_vae_that_makes_no_sense_is_refused(tmp_path, settings, message):
    with pytest.raises(UserError, match=message):
        run(tmp_path / "run", VAE(**settings))
    assert not (tmp_path / "run").exists()
