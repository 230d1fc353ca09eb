"""Many runs: plans and what is refused of them, names, what is skipped, failures, real workers."""

import io
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import Future
from dataclasses import asdict, fields, replace
from pathlib import Path

import pytest
from rich.console import Console

from hnca.lab import cores
from hnca.lab.cli import main
from hnca.lab.cli.sweep_table import EventTable
from hnca.lab.errors import UserError
from hnca.lab.experiments import EXPERIMENTS, VAE, Bandit, ConvVAE, run_name, task_of, whole_name
from hnca.lab.sweep import (
    ENGINES,
    AbstractEngine,
    Outlook,
    Pace,
    PlannedRun,
    Scheduler,
    built_in,
    latest_epochs,
    make_engine,
    narrowed,
    read_plan,
    run_status,
    runs_of,
)
from hnca.lab.sweep.status import program_of
from hnca.lab.sweep.worker import Measurement, Order, Outcome, work
from hnca.lab.training import RunDirectory, train
from hnca.lab.training.signals import listening
from test_cli import environment, lines, stripes, wait_for  # noqa: F401  (fixtures)
from test_runs import DATA, TINY, DiesAfter, Killed, Quiet, outcome

PLAN = """
[settings]
dataset = "{data}"
batch_size = 8

[[grid]]
task = "bandit"
layers = 1
units = 3
epochs = {epochs}
estimator = ["reinforce", "reinforce+baseline"]
seeds = [0, 1]
"""


OWN = """
from __future__ import annotations
from dataclasses import dataclass
from typing import ClassVar, Literal
from hnca.lab.experiments import Bandit

@dataclass(frozen=True)
class Mine(Bandit):
    name: ClassVar[str] = "mine"

    style: Literal["plain", "odd"] = "plain"
    shape: tuple[float, ...] = (2.0,)
    rate: float | None = None
    loud: bool = False

    @property
    def title(self):
        return f"mine-{self.estimator}"

class Helper:
    pass
"""


@pytest.fixture
def plan(tmp_path, stripes):  # noqa: F811
    def write(epochs=2, more=""):
        path = tmp_path / "tiny.toml"
        path.write_text(PLAN.format(data=stripes, epochs=epochs) + more)
        return str(path)

    return write


def sweep(*arguments: str) -> int:
    with pytest.raises(SystemExit) as leaving:
        main(["sweep", *arguments])
    return leaving.value.code or 0


def experiments(text: str, tmp_path) -> list:
    (tmp_path / "plan.toml").write_text(text)
    return read_plan(str(tmp_path / "plan.toml")).experiments


# Plans


def test_the_papers_plans_are_the_papers():
    """Methods, depths and seeds of its figures and its table."""
    counts = {name: len(read_plan(name).experiments) for name in built_in()}
    assert counts.pop("quick") > 40
    assert counts == {
        "paper-bandit": 60,
        "paper-conv": 40,
        "paper-vae": 85,
        "paper-ablation": 20,
    }
    everything = [each for name in counts for each in read_plan(name).experiments]
    assert {each.dataset for each in everything} == {"mnist"}
    assert {(task_of(type(each)), each.epochs) for each in everything} == {
        ("bandit", 100),
        ("conv-bandit", 100),
        ("vae", 840),
    }
    assert {each.learning_rate for each in everything} == {1e-4}
    assert {each.batch_size for each in everything} == {50}
    table = Counter(each.title for each in read_plan("paper-vae").experiments)
    assert set(table.values()) == {5}
    assert "vae-1-hnca+baseline" not in table  # NA in the paper
    assert {"vae-2-hnca+baseline", "vae-3-hnca+baseline", "vae-1-hnca"} < set(table)
    ablated = Counter(each.title for each in read_plan("paper-ablation").experiments)
    endings = ("unpruned", "unpruned-full-reward")
    assert ablated == {f"vae-{n}-hnca+baseline-{end}": 5 for n in (2, 3) for end in endings}
    assert max(each.seed for each in read_plan("paper-conv").experiments) == 19


def test_the_quick_plan_has_everything():
    quick = read_plan("quick").experiments
    for task in ("bandit", "conv-bandit", "vae"):
        used = {each.estimator for each in quick if task_of(type(each)) == task}
        for name in hnca_estimators(task):
            assert name in used, (task, name)
    assert {each.dataset for each in quick} == {"glyphs"}


def hnca_estimators(task: str) -> list[str]:
    from hnca.estimators import REGISTRY, make_estimator
    from hnca.lab.experiments import EXPERIMENTS

    experiment = EXPERIMENTS[task]()
    return [name for name in REGISTRY if not experiment.objection(make_estimator(name))]


def test_a_list_is_multiplied_out(tmp_path):
    found = experiments(
        """
        [[grid]]
        task = "vae"
        units = [30, [20, 10]]
        learning_rate = [1, 1e-3]
        prune_children = false
        seeds = [3, 5]
        [[grid]]
        task = "vae"
        units = 30
        prune_children = false
        seeds = [5]
        learning_rate = 1e-3
        """,
        tmp_path,
    )
    wanted = [
        VAE(units=units, learning_rate=rate, prune_children=False, seed=seed)
        for units in ((30,), (20, 10))
        for rate in (1.0, 1e-3)
        for seed in (3, 5)
    ]
    assert found == wanted  # and the one of both grids is there once


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("grid = 3", "needs one or more tables"),
        ("", "needs one or more tables"),
        ("[[grid]", "is not TOML"),
        ("[[grid]]\ntask = 'bandit'\n[grids]", "unknown key 'grids': a plan has about"),
        ("[[grid]]\nlayers = 1", "grid 1: there is no task: choose one of bandit"),
        ("[[grid]]\ntask = 'bandits'", "unknown task 'bandits': choose one of bandit"),
        ("[[grid]]\ntask = 3", "unknown task 3: choose one of bandit"),
        ("[[grid]]\ntask = 'bandit'\nlayer = 1", "did you mean layers? bandit has"),
        ("[[grid]]\ntask = 'bandit'\nseed = 1", "unknown setting 'seed': a plan says it by seeds"),
        ("[[grid]]\ntask = 'bandit'\nlayers = '1'", "layers must be a whole number, not '1'"),
        ("[[grid]]\ntask = 'bandit'\nlayers = [1, true]", "a whole number, not True"),
        ("[[grid]]\ntask = 'bandit'\nlayers = []", "layers is an empty list"),
        ("[[grid]]\ntask = 'bandit'\nseeds = 3", "as in [0, 1, 2], not 3"),
        ("[[grid]]\ntask = 'bandit'\noptimizer = 'adem'", "one of adam, sgd, rmsprop"),
        ("[[grid]]\ntask = 'vae'\nunits = [['3']]", "a list of such inside of the list, not ['3']"),
        ("[[grid]]\ntask = 'vae'\nprune_children = 0", "prune_children must be true or false"),
        ("[[grid]]\ntask = 'bandit'\nestimator = ['hnca', 'loo']", "'loo' evaluates the objective"),
        ("[[grid]]\ntask = 'bandit'\nepochs = 0", "--epochs must be above 0"),
    ],
)
def test_a_wrong_plan_gets_one_line(tmp_path, capfd, text, message):
    path = tmp_path / "wrong.toml"
    path.write_text(text)
    assert sweep(str(path)) == 1
    said = capfd.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith(f"error: {path}")
    assert message in said


def test_a_plan_takes_an_experiment_of_ones_own(tmp_path, monkeypatch):
    """From a file beside it, with settings of any type; what is sent to workers names no class."""
    monkeypatch.chdir("/")
    (tmp_path / "own.py").write_text(OWN)
    found = experiments(
        """
        [[grid]]
        task = "own.py:Mine"
        style = "odd"
        shape = [1, [2, 3]]
        rate = 1
        loud = true
        """,
        tmp_path,
    )
    assert [each.shape for each in found] == [(1.0,), (2.0, 3.0)]
    for each in found:
        assert (each.style, each.rate, each.loud) == ("odd", 1.0, True)
        assert all(type(value) is float for value in (*each.shape, each.rate))
        order = Order.of(each)
        assert order.task == f"{tmp_path / 'own.py'}:Mine"
        assert type(each).__module__.encode() not in pickle.dumps(order)
        assert order.experiment() == each
    assert Order.of(type(found[0])()).settings == {}


@pytest.mark.parametrize(
    ("task", "more", "message"),
    [
        ("other.py:Mine", "", "no file other.py"),
        ("own.py:Mein", "", "own.py has no experiment 'Mein': did you mean Mine?"),
        ("own.py:Helper", "", "own.py has no experiment 'Helper': there is Bandit, Mine"),
        ("broken.py:Mine", "", "broken.py, line 2: ZeroDivisionError: division by zero"),
        ("wrong.py:Mine", "", "wrong.py, line 1: SyntaxError"),
        ("own.py:Mine", "style = 'even'", "style must be one of plain, odd, not 'even'"),
        ("own.py:Mine", "sytle = 'odd'", "did you mean style? own.py:Mine has estimator"),
        ("own.py:Mine", "shape = ['a']", "shape must be a number"),
    ],
)
def test_a_wrong_experiment_of_ones_own_gets_one_line(tmp_path, capfd, task, more, message):
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "broken.py").write_text("x = 1\ny = x / 0\n")
    (tmp_path / "wrong.py").write_text("class Mine(:\n")
    (tmp_path / "plan.toml").write_text(f"[[grid]]\ntask = '{task}'\n{more}")
    assert sweep(str(tmp_path / "plan.toml")) == 1
    said = capfd.readouterr().err
    assert said.count("\n") == 1
    assert message in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["papper"], "no plan 'papper': it has to be one of paper-ablation, paper-bandit"),
        (["nowhere.toml"], "no file nowhere.toml"),
        (["quick", "--seeds", "9"], "there are 0, 1"),
        (["quick", "--only", "rnn"], "--only rnn: matches none of bandit-1-hnca"),
        (["quick", "--epochs", "0"], "--epochs must be above 0"),
        (["quick", "--workers", "0"], "--workers must be 1 or more"),
        (["quick", "--address", "x"], "add --engine ray or --engine dask"),
        (["quick", "--engine", "slurm"], "--engine"),
    ],
)
def test_a_wrong_command_gets_one_line(capfd, arguments, message):
    assert sweep(*arguments) in (1, 2)
    said = capfd.readouterr().err
    assert said.count("\n") == 1
    assert message in said


def test_help_teaches(capsys):
    assert sweep() == 0
    said = capsys.readouterr().out
    assert all(name in said for name in [*built_in(), "--dry-run", "[[grid]]", "seeds = ["])
    for name, engine in ENGINES.items():
        assert re.search(rf"^  {name} +{engine.about}$", said, re.MULTILINE)
    assert f"--engine {{{','.join(ENGINES)}}}" in said


@pytest.mark.parametrize("name", ["...toml", "..toml", ".toml", ".hidden.toml", "a\nb.toml"])
def test_a_plan_that_names_no_directory_is_refused(tmp_path, monkeypatch, capfd, name):
    """`...toml` would have put its runs into `runs/..`."""
    monkeypatch.chdir(tmp_path)
    Path(name).write_text("[[grid]]\ntask = 'bandit'")
    assert sweep(name, "--dry-run") == 1
    assert "rename it, as in plan.toml" in capfd.readouterr().err
    assert os.listdir() == [name]


def test_a_plan_of_ones_own_keeps_out_of_a_built_in_ones_way(tmp_path, monkeypatch, here, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("hnca.lab.cli.sweep.measure_programs", lambda *call: None)
    Path("quick.toml").write_text("[[grid]]\ntask = 'bandit'\ndataset = 'glyphs'")
    assert sweep("quick.toml", "--dry-run") == 1
    said = capfd.readouterr().err
    assert "quick.toml would share runs/quick with the plan 'quick' that comes with hnca" in said
    assert sweep("quick.toml", "--out", "mine", "--dry-run") == 0
    assert "1 run in mine, 1 to do" in capfd.readouterr().out


def test_a_big_plan_is_checked_once_a_setting_and_tells_how_far_it_is(tmp_path, monkeypatch):
    checked, said = [], []
    monkeypatch.setattr(Bandit, "check", lambda self: checked.append((self.units, self.seed)))
    monkeypatch.setattr("hnca.lab.sweep.plans.QUIET", -1.0)
    path = tmp_path / "big.toml"
    sizes, seeds = list(range(1, 31)), list(range(20))
    path.write_text(f"[[grid]]\ntask = 'bandit'\nunits = {sizes}\nseeds = {seeds}")
    plan = read_plan(str(path), said.append)
    assert len(runs_of(plan.experiments, say=said.append)) == 600
    assert {units for units, _ in checked} == set(sizes)
    assert {seed for _, seed in checked} == set(seeds)
    assert len(checked) == 20 + 29
    assert "checked settings: 29 of 30" in said
    assert "named runs: 599 of 600" in said


# Runs


def test_a_run_that_names_no_directory_is_refused():
    with pytest.raises(UserError, match="no name of a directory"):
        runs_of([Bandit(dataset="/a/b\nc")])


def test_a_name_tells_every_setting_that_is_not_the_papers():
    """And so does not depend on what else is in the plan."""
    names = {
        Bandit(layers=2): "bandit-2-hnca+baseline-mnist-0",
        Bandit(layers=2, learning_rate=3e-4): "bandit-2-hnca+baseline-learning-rate-0.0003-mnist-0",
        Bandit(units=7, dataset="/a/own/", seed=1): "bandit-3-hnca+baseline-units-7-own-1",
        VAE(layers=2, epochs=3, estimator="loo"): "vae-2-loo-mnist-0",
        VAE(units=(2,), optimizer="sgd"): "vae-2-units-hnca+baseline-optimizer-sgd-mnist-0",
    }
    assert {run.experiment: run.name for run in runs_of(list(names))} == names


def test_names_do_not_tell_what_all_grids_share():
    """Unless a grid has it otherwise, be it as in the paper."""
    usual = {"learning_rate": 1e-3, "train_size": 100}
    names = {
        Bandit(layers=2, **usual): "bandit-2-hnca+baseline-mnist-0",
        Bandit(layers=2, train_size=100): "bandit-2-hnca+baseline-learning-rate-0.0001-mnist-0",
    }
    assert {run.experiment: run.name for run in runs_of(list(names), usual=usual)} == names


@pytest.mark.parametrize("kind", EXPERIMENTS.values())
def test_every_setting_of_its_own_makes_another_name(kind):
    values = {"estimator": "reinforce", "optimizer": "sgd", "learning_rate": 1e-4 + 1e-18}
    values |= {"schedule": "cosine", "clip": 4.0, "kl_start": 4.0}
    values |= {"units": (7,)} if kind is VAE else {}
    values |= {"channels": (7,), "kernel": 5} if kind is ConvVAE else {}
    values |= dict.fromkeys(("prune_children", "downstream_only"), False)
    for field in fields(kind):
        if field.name not in ("epochs", "updates"):
            other = values.get(field.name, "own" if field.name == "dataset" else 4)
            assert run_name(kind(**{field.name: other})) != run_name(kind()), field.name


def test_long_names_are_cut_and_tell_runs_apart(tmp_path):
    long = {"learning_rate": 0.00123456, "batch_size": 17, "optimizer": "rmsprop", "train_size": 12}
    own = [VAE(**long, test_size=n, dataset="a" * 99, seed=seed) for n in (1, 2) for seed in (0, 1)]
    names = [run.name for run in runs_of(own)]
    assert len(set(names)) == 4
    shape = r"vae-1-hnca\+baseline-batch-size-17-.*-[0-9a-f]{8}-a{16}-[01]"
    assert all(len(name) == 72 and re.fullmatch(shape, name) for name in names)
    assert names[0][:-1] == names[1][:-1]  # seeds of the same settings stand together
    assert [run.name for run in narrowed(runs_of(own), only=("test-size-2-*-1",))] == names[3:]
    before = whole_name(own[2])  # as it was called
    (tmp_path / before).mkdir()
    found = [run.name for run in runs_of(own, place=tmp_path)]
    assert found == [*names[:2], before, names[3]]


@pytest.mark.parametrize(
    ("one", "other", "setting"),
    [
        (Bandit(dataset="/a/own"), Bandit(dataset="/b/own"), "dataset"),
        (Bandit(epochs=1), Bandit(epochs=2), "epochs"),
        (VAE(), VAE(layers=1), "layers"),
    ],
)
def test_two_runs_of_one_name_are_refused(one, other, setting):
    with pytest.raises(UserError, match=f"they differ in {setting} only"):
        runs_of([one, other])


def test_epochs_seeds_and_patterns_narrow_a_plan():
    runs = runs_of(read_plan("paper-vae").experiments, epochs=3)
    assert {run.experiment.epochs for run in runs} == {3}
    assert len(narrowed(runs, seeds=(0, 4))) == 34
    found = narrowed(runs, seeds=(1,), only=("vae-3*hnca*", "vae-1-loo"))
    assert [run.experiment.title for run in found] == [
        "vae-1-loo",
        "vae-3-hnca",
        "vae-3-hnca+baseline",
    ]


# On the disk


def test_progress_is_read_from_the_directory(tmp_path):
    run = PlannedRun("run", TINY)
    assert run_status(run, tmp_path).words(run) == "missing"
    with pytest.raises(Killed):
        train(TINY, TINY.images(DATA), RunDirectory(tmp_path / "run"), DiesAfter(2))
    metrics = tmp_path / "run" / "metrics.jsonl"
    whole = metrics.read_text()
    metrics.write_text(whole + '{"epoch": 3')
    assert run_status(run, tmp_path).words(run) == "2 of 3 epochs"
    metrics.write_text(whole)
    train(TINY, TINY.images(DATA), RunDirectory(tmp_path / "run"), Quiet())
    assert run_status(run, tmp_path).state == "done"
    longer, other = replace(TINY, epochs=5), replace(TINY, units=5)
    assert (
        run_status(PlannedRun("run", longer), tmp_path).words(PlannedRun("run", longer))
        == "3 of 5 epochs"
    )
    assert "other settings" in run_status(PlannedRun("run", other), tmp_path).why


@pytest.mark.parametrize(
    ("file", "text", "state"),
    [
        ("metrics.jsonl", "{}\n[]\n3\n", "begun"),
        ("metrics.jsonl", '{"epoch": "3", "seconds": 1}\n', "begun"),
        ("metrics.jsonl", "nonsense\n", "begun"),
        ("metrics.jsonl", '{"epoch": 2, "seconds": 1.5}\n', "begun"),
        ("metrics.jsonl", '{}\n{"epoch": 3, "seconds": 1.5}\n', "done"),
        ("summary.json", "[]", "unusable"),
        ("summary.json", "{}", "begun"),
        ("summary.json", '{"epochs": "3"}', "begun"),
        ("config.json", '{"task": "bandit", "settings": [], "data": {}}', "unusable"),
    ],
)
def test_damaged_files_end_no_sweep(tmp_path, file, text, state):
    """And a run is done only if its summary and its metrics agree."""
    config = {"task": "bandit", "settings": asdict(TINY), "data": {}}
    whole = {
        "config.json": json.dumps(config),
        "metrics.jsonl": '{"epoch": 3, "seconds": 1}\n',
        "summary.json": '{"epochs": 3}',
    }
    (tmp_path / "run").mkdir()
    for name, content in whole.items():
        (tmp_path / "run" / name).write_text(content)
    run = PlannedRun("run", TINY)
    assert run_status(run, tmp_path).state == "done"
    (tmp_path / "run" / file).write_text(text)
    assert run_status(run, tmp_path).state == state
    Pace().learn(run, latest_epochs(run, tmp_path))


def test_the_time_is_shared_out_and_bounded_by_the_longest():
    pace = Pace()
    assert pace.total([(PlannedRun("run", TINY), 3)], workers=2) is None
    pace.put(TINY, Measurement(start=1.0, epoch=2.0))
    assert pace.epoch(replace(TINY, seed=7, epochs=9)) == 2.0
    assert pace.epoch(replace(TINY, layers=2)) == 2.0  # nothing else is known
    assert pace.unknown([TINY, replace(TINY, seed=1), VAE()]) == [program_of(VAE())]
    runs = [(PlannedRun(str(seed), replace(TINY, seed=seed)), 3) for seed in range(4)]
    assert pace.total(runs, workers=2) == 4 * 7 / 2
    assert pace.total(runs, workers=50) == 7


def test_the_time_left_goes_by_the_epochs_of_this_sweep(tmp_path):
    """What was done before does not count as done, nor what has failed as left."""
    done, other = (PlannedRun(str(seed), replace(TINY, epochs=20, seed=seed)) for seed in (0, 1))

    def advance(run, epochs):
        (tmp_path / run.name).mkdir(exist_ok=True)
        entries = [{"epoch": epoch + 1, "seconds": 2.0} for epoch in range(epochs)]
        text = "".join(json.dumps(entry) + "\n" for entry in entries)
        (tmp_path / run.name / "metrics.jsonl").write_text(text)

    advance(done, 10)
    outlook = Outlook([done, other], tmp_path)
    assert outlook.seconds() is None
    advance(done, 15)
    outlook.look([done, other])
    outlook._began -= 1000
    assert (outlook.epochs(done), outlook.epochs(other)) == (15, 0)
    assert outlook.seconds() == pytest.approx(25 / 5 * 1000, rel=0.01)
    outlook.give_up(other)
    assert outlook.seconds() == pytest.approx(5 / 5 * 1000, rel=0.01)


# The scheduler, with an engine that does everything at once, in this process


class Here(AbstractEngine):
    workers = 2

    def __init__(self, deaths=()):
        self.deaths = list(deaths)  # runs whose worker dies, once for each time they are named

    def submit(self, function, *arguments):
        future = Future()
        name = arguments[0].path.name if function is work else None
        if name in self.deaths:
            self.deaths.remove(name)
            future.set_exception(RuntimeError("killed\nsomewhere"))
            return future
        try:
            future.set_result(function(*arguments))
        except UserError as error:
            future.set_exception(error)
        return future

    def close(self, at_once=False):
        pass


def carry_out(scheduler):
    events = []
    while not scheduler.over:
        events += [(event.what, event.run.name) for event in scheduler.turn(0.01)]
    return events


@pytest.fixture
def two(stripes):  # noqa: F811
    seeds = (replace(TINY, dataset=str(stripes), epochs=1, seed=seed) for seed in (0, 1))
    return runs_of(list(seeds))


def test_a_run_that_fails_is_tried_once_more_and_the_others_go_on(tmp_path, two):
    bad = PlannedRun("bad", replace(two[0].experiment, train_size=1000))
    scheduler = Scheduler([bad, *two], tmp_path, Here())
    events = carry_out(scheduler)
    assert Counter(what for what, name in events if name == "bad") == {
        "begun": 2,
        "again": 1,
        "failed": 1,
    }
    assert set(scheduler.done) == set(two)
    assert "--train-size 1000" in scheduler.failed[bad]


def test_a_run_whose_worker_dies_is_done_by_another(tmp_path, two):
    deadly, once = two
    scheduler = Scheduler(two, tmp_path, Here([once.name] + [deadly.name] * 9))
    carry_out(scheduler)
    assert scheduler.done == [once]
    assert scheduler.failed == {deadly: "its worker died: killed"}


def test_a_run_of_another_process_is_waited_for(tmp_path, two, monkeypatch):
    """More and more patiently, and it is told of once."""
    monkeypatch.setattr("hnca.lab.sweep.scheduler.PATIENCE", 1e-3)
    monkeypatch.setattr("hnca.lab.sweep.scheduler.MOST", 4e-3)
    scheduler = Scheduler(two[:1], tmp_path, Here())
    with RunDirectory(tmp_path / two[0].name).lock():
        events = [event.what for _ in range(9) for event in scheduler.turn(0.01)]
    assert events == ["begun", "busy"]
    assert [what for what, _ in carry_out(scheduler)] == ["done"]
    assert scheduler.done == two[:1]


def test_what_a_worker_did_elsewhere_is_not_done(tmp_path, two, monkeypatch):
    """As on a cluster that does not share the directory."""
    monkeypatch.setattr("hnca.lab.sweep.scheduler.work", lambda job: Outcome("done"))
    scheduler = Scheduler(two[:1], tmp_path, Here())
    carry_out(scheduler)
    assert not scheduler.done
    assert "--out has to be on a file system that all machines share" in scheduler.failed[two[0]]


def test_a_second_ctrl_c_leaves_no_file_behind(tmp_path, two):
    scheduler = Scheduler(two, tmp_path, make_engine("local", 1))
    scheduler.running[Future()] = two[0]
    scheduler.stop()
    assert list(tmp_path.iterdir())
    scheduler.close()
    assert not list(tmp_path.iterdir())


@pytest.fixture
def here(monkeypatch):
    """A sweep without processes."""
    monkeypatch.setattr("hnca.lab.cli.sweep.make_engine", lambda *arguments: Here())


def test_jobs_have_whole_paths(tmp_path, plan, stripes, monkeypatch, capfd):  # noqa: F811
    """A cluster may have been started in another directory."""
    jobs = []

    class Elsewhere(Here):
        def submit(self, function, *arguments):
            jobs.extend(arguments)
            future = Future()
            future.set_result(Outcome("done"))
            return future

    monkeypatch.setattr("hnca.lab.cli.sweep.make_engine", lambda *arguments: Elsewhere())
    monkeypatch.chdir(tmp_path)
    text = Path(plan()).read_text().replace(str(stripes), os.path.relpath(stripes))
    Path("relative.toml").write_text(text)
    assert sweep("relative.toml", "--data-dir", ".") == 1
    assert {job.order.settings["dataset"] for job in jobs} == {str(stripes)}
    assert {job.path.parent for job in jobs} == {tmp_path / "runs" / "relative"}
    assert {job.data_dir for job in jobs} == {tmp_path}
    assert f"-o {Path('runs', 'relative', 'report')}" in capfd.readouterr().out


def test_a_dry_run_lists_before_it_measures(tmp_path, plan, here, capfd):
    """And what cannot be measured is told, no more."""
    bad = '[[grid]]\ntask = "bandit"\ntrain_size = 1000'
    assert sweep(plan(more=bad), "--out", str(tmp_path / "out"), "--dry-run") == 0
    said = capfd.readouterr().out
    assert re.search(r"^bandit-1-reinforce-\S*-0 +missing\n", said)
    assert re.search(r"bandit-3-\S+ cannot be measured: --train-size 1000", said)
    assert said.rindex("missing") < said.index("measured")
    assert re.search(r"5 runs in \S+, 5 to do\n", said)
    assert re.search(r"that takes about \d+:\d\d on 2 local workers", said)
    assert not (tmp_path / "out").exists()


def test_a_dry_run_of_many_lists_some(tmp_path, plan, here, monkeypatch, capfd):
    monkeypatch.setattr("hnca.lab.cli.sweep.LISTED", 3)
    monkeypatch.setattr("hnca.lab.cli.sweep.measure_programs", lambda *call: None)
    assert sweep(plan(), "--out", str(tmp_path / "out"), "--dry-run") == 0
    said = capfd.readouterr().out
    assert len(re.findall(r"^bandit.* missing$", said, re.MULTILINE)) == 3
    assert "... and 1 more: 1 missing\n" in said


def test_a_dry_run_that_finds_a_conflict_says_so_and_fails(tmp_path, plan, here, capfd):
    out = tmp_path / "out"
    options = ["--out", str(out), "--seeds", "0", "--only", "reinforce-"]
    assert sweep(plan(), *options) == 0
    other = Path(plan()).read_text().replace("units = 3", "units = 4")
    [run] = out.iterdir()
    run.rename(out / run.name.replace("units-3", "units-4"))
    (tmp_path / "tiny.toml").write_text(other)
    capfd.readouterr()
    assert sweep(str(tmp_path / "tiny.toml"), *options, "--dry-run") == 1
    said = capfd.readouterr()
    assert "1 run in" in said.out
    assert "holds a run with other settings: choose another --out" in said.err


def test_a_sweep_from_nothing_to_the_end(tmp_path, plan, here, monkeypatch, capfd):
    """Half-done runs go on to the same bits, done ones are left alone, a bad one is told."""
    out = tmp_path / "out"
    options = ["--out", str(out)]
    assert sweep(plan(), *options, "--epochs", "1", "--only", "baseline*-0") == 0
    said = capfd.readouterr().out
    assert "1 of 1 run done" in said
    assert re.search(r"^done +\S+: train_accuracy \S+, test_accuracy \S+$", said, re.MULTILINE)
    assert f"report {out} -o {out / 'report'}" in said
    half = next(out.iterdir())
    began = (half / "metrics.jsonl").read_text()

    bad = '[[grid]]\ntask = "bandit"\ntrain_size = 1000'
    assert sweep(plan(more=bad), *options) == 1
    said = capfd.readouterr().out
    assert "5 runs, 5 to do" in said
    assert re.search(r"failed: bandit-3-\S+: --train-size 1000: there are no more than 48", said)
    assert "4 of 5 runs done" in said
    assert (half / "metrics.jsonl").read_text().startswith(began)

    assert sweep(plan(), "--out", str(tmp_path / "whole"), "--only", "baseline*-0") == 0
    assert outcome(half) == outcome(tmp_path / "whole" / half.name)
    capfd.readouterr()
    monkeypatch.setattr("hnca.lab.cli.sweep.make_engine", None)  # nobody is needed any more
    files = {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.is_file()}
    assert sweep(plan(), *options) == 0
    assert "4 runs, 0 to do" in capfd.readouterr().out
    assert sweep(plan(), *options, "--dry-run") == 0
    assert "4 runs in" in capfd.readouterr().out
    assert files == {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.is_file()}


def test_a_sweep_that_stops_leaves_runs_that_go_on(tmp_path, two, monkeypatch):
    scheduler = Scheduler(two, tmp_path, Here())
    held = Here.submit
    monkeypatch.setattr(Here, "submit", lambda *call: (scheduler.stop(), held(*call))[1])
    events = carry_out(scheduler)
    assert [what for what, _ in events] == ["begun", "begun", "stopped", "stopped"]
    assert set(scheduler.waiting) == set(two)
    scheduler.close()
    assert not list(tmp_path.glob(".stop*"))
    monkeypatch.undo()
    again = Scheduler(two, tmp_path, Here())
    carry_out(again)
    assert set(again.done) == set(two)


def test_signals_at_once_end_a_sweep_and_its_workers(plan, tmp_path, monkeypatch, capfd):
    """Also those that come while the workers are being ended."""
    closed = []

    class Signalled(Here):
        def submit(self, function, *arguments):
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            return Future()

        def close(self, at_once=False):
            signal.raise_signal(signal.SIGINT)
            closed.append(at_once)

    monkeypatch.setattr("hnca.lab.cli.sweep.make_engine", lambda *arguments: Signalled())
    assert sweep(plan(), "--out", str(tmp_path / "out")) == 130
    assert closed == [True]
    assert "Stopped with 0 of 4 runs done. Go on with:" in capfd.readouterr().out


def test_interrupted_before_anything_is_done_a_sweep_says_how_to_go_on(
    plan, tmp_path, monkeypatch, capfd
):
    def starting(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("hnca.lab.cli.sweep.make_engine", starting)
    assert sweep(plan(), "--out", str(tmp_path / "out")) == 130
    assert "Stopped with 0 of 4 runs done. Go on with:" in capfd.readouterr().out


def test_the_table_says_that_a_run_is_compiling(tmp_path, two):
    scheduler = Scheduler(two, tmp_path, Here())
    scheduler.running[Future()] = scheduler.waiting.popleft()
    table, console = EventTable(scheduler, tmp_path, 0), Console(width=120, file=io.StringIO())
    table.update([])
    console.print(table._live.renderable)
    said = console.file.getvalue()
    assert re.search(r"0/1 +compiling, or in its first epoch", said)
    assert "left" not in said


def test_signals_are_the_main_threads_business():
    """Ray and Dask call from other threads, where no handler can be set."""
    before, found = signal.getsignal(signal.SIGINT), []

    def elsewhere():
        with listening() as request:
            request.check()
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert found == [before]


# Real workers


@pytest.mark.parametrize(("told", "count"), [("1", 1), ("99", 3), ("0", 3), ("many", 3), ("", 3)])
def test_cores_that_compute(told, count, monkeypatch):
    monkeypatch.setattr(cores, "usable_cores", lambda: 3)
    monkeypatch.setenv("PJRT_NPROC", told)
    assert cores.computing_cores() == count


def core_and_pid(pause):
    time.sleep(pause)
    return os.sched_getaffinity(0), os.getpid(), signal.pthread_sigmask(signal.SIG_BLOCK, ())


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system binds no processes")
def test_local_workers_are_bound_to_no_core_and_are_replaced():
    engine = make_engine("local", workers=2)
    try:
        calls = [engine.submit(core_and_pid, 0.1) for _ in range(2)]
        (first, pid, *deaf), (second, other, *also_deaf) = (call.result() for call in calls)
        assert first == second == os.sched_getaffinity(0)  # two sweeps must not choose the same
        assert pid != other
        assert deaf == also_deaf == [{signal.SIGINT}]  # a terminal's Ctrl-C is for the sweep
        dying = engine.submit(os.kill, pid, signal.SIGKILL)
        assert dying.exception() is not None
        assert engine.submit(core_and_pid, 0).result()[1] != pid
    finally:
        engine.close(at_once=True)


PARENT = """
import os, sys
from hnca.lab.sweep import make_engine
engine = make_engine("local", 1)
print(engine.submit(os.getpid).result(), flush=True)
sys.stdin.read()
"""


def is_there(pid: int) -> bool:
    """Not gone, and no zombie that nobody has asked after."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux")
def test_workers_end_with_their_parent():
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with parent:
        worker = int(parent.stdout.readline())
        assert is_there(worker)
        parent.kill()
        deadline = time.monotonic() + 20
        while is_there(worker) and time.monotonic() < deadline:
            time.sleep(0.05)
        left = is_there(worker)
        if left:
            os.kill(worker, signal.SIGKILL)
    assert not left


@pytest.fixture
def cached(environment, monkeypatch):  # noqa: F811
    for name, value in environment.items():
        monkeypatch.setenv(name, value)


@pytest.mark.slow
def test_interrupted_a_sweep_goes_on(tmp_path, plan, environment, cached, capfd):  # noqa: F811
    """Of an experiment of one's own: workers have to import its file themselves."""
    out, own = tmp_path / "out", Path(plan(epochs=100_000))
    (tmp_path / "own.py").write_text(OWN)
    own.write_text(own.read_text().replace('"bandit"', '"own.py:Mine"'))
    command = [sys.executable, "-m", "hnca", "sweep", str(own), "--out", str(out)]
    command += ["--seeds", "0", "--only", "reinforce-", "--workers", "1"]
    process = subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    began = lambda: sum(lines(path) for path in out.glob("*/metrics.jsonl"))
    wait_for(process, lambda: began() >= 3)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: workers are asked as well
    said = process.communicate()[0]
    assert process.returncode == 130, said
    assert "Stopped with 0 of 1 run done. Go on with:" in said
    assert "Traceback" not in said
    assert not list(out.glob(".stop*"))
    done = began()
    assert sweep(*command[4:], "--epochs", str(done + 1)) == 0
    assert "1 of 1 run done" in capfd.readouterr().out
    assert began() == done + 1
    (config,) = out.glob("*/config.json")
    assert json.loads(config.read_text())["machine"].endswith(", 1 core")
