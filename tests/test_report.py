"""A report of runs that nobody trained: what is averaged, and what is told of the rest."""

import csv
import io
import itertools
import json
import math
import os
import re
import shutil
from collections import Counter
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest
from made_up_runs import make_run

from hnca.estimators import REGISTRY
from hnca.lab.cli import main
from hnca.lab.errors import UserError
from hnca.lab.experiments import VAE, Bandit, ConvBandit
from hnca.lab.report import attention, find_runs, read_runs, write_report
from hnca.lab.report.figures import draw_figure, drawings
from hnca.lab.report.groups import Interval, interval, panels_of
from hnca.lab.report.labels import COLORS, DASHES
from hnca.lab.report.page import POINTS, curves_data
from hnca.lab.report.paper import compare_bounds, published_bounds
from hnca.lab.report.spreadsheets import epochs, results
from hnca.lab.report.tables import bounds_table, final_tables, runs_table
from hnca.lab.training.evaluation import standard_error


def collect(path: Path):
    return read_runs(find_runs([path]))


def panels(path: Path):
    return panels_of(collect(path).runs)


def rewrite(file: Path, **changes) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def evaluated(directory, bound: float, **changes) -> None:
    epochs = json.loads(directory.summary.read_text())["epochs"]
    result = {"epoch": epochs, "samples": 100, "images": 10000, "test_bound": bound}
    rewrite(directory.summary, evaluation=result | changes)


# Statistics


def test_intervals_by_hand():
    # mean 3, standard deviation sqrt(2.5), t of 4 degrees of freedom 2.776445
    found = interval([1.0, 2.0, 3.0, 4.0, 5.0])
    assert found.n == 5
    assert found.mean == pytest.approx(3)
    assert found.half == pytest.approx(2.776445 * math.sqrt(2.5 / 5), rel=1e-6)
    # two values: t of 1 degree of freedom 12.7062
    assert interval([0.0, 2.0]).half == pytest.approx(12.7062, rel=1e-5)
    assert interval([7.0]) == Interval(7.0, None, 1)
    assert interval([7.0]).shown(2) == "7.00"


def test_standard_errors_by_hand():
    # squares of deviations 9, 1, 1, 9: a variance of 20 / 3, and of the mean 20 / 12
    assert standard_error(np.array([2.0, 4.0, 6.0, 8.0])) == pytest.approx(math.sqrt(20 / 12))
    assert standard_error(np.array([7.0])) == 0
    # an interval is Student's t of 3 degrees of freedom, 3.182446, of them
    assert interval([2.0, 4.0, 6.0, 8.0]).half == pytest.approx(3.182446 * math.sqrt(20 / 12))


def test_more_seeds_may_differ_from_an_interval_by_less():
    # of a mean of 5 the variance is s^2 / 5; of a single value s^2: six times as much together
    assert Interval(0, 1.0, 5).widened(1) == pytest.approx(math.sqrt(6))
    assert Interval(0, 1.0, 5).widened(5) == pytest.approx(math.sqrt(2))
    generator = np.random.default_rng(0)
    draw = lambda n: generator.normal(3.0, 2.0, n)
    for ours in (1, 4):
        papers = [(interval(list(draw(5))), draw(ours).mean()) for _ in range(4000)]
        within = np.mean([abs(mean - paper.mean) <= paper.widened(ours) for paper, mean in papers])
        assert abs(within - 0.95) < 4 * math.sqrt(0.95 * 0.05 / 4000)


def test_means_over_seeds_are_of_logarithms_for_variances(tmp_path):
    runs = [make_run(tmp_path / f"{seed}", Bandit(epochs=3, seed=seed)) for seed in (0, 1)]
    (panel,) = panels(tmp_path)
    (group,) = panel.groups
    measured = [[math.log(e["gradient_variance"]) for e in run.read_metrics()] for run in runs]
    curve = group.curve("gradient_variance")
    np.testing.assert_allclose(curve.mean, np.mean(measured, axis=0))
    spread = np.abs(np.subtract(*measured)) / 2  # half a difference is s / sqrt(2) of two
    np.testing.assert_allclose(curve.half, 12.7062 * spread, rtol=1e-5)
    assert group.final("gradient_variance").mean == pytest.approx(curve.mean[-1])


# Grouping


@pytest.mark.parametrize(
    "other",
    [
        {"estimator": "hnca"},
        {"units": (100,)},
        {"learning_rate": 1e-3},
        {"epochs": 5},
        {"prune_children": False},
        {"train_size": 1000},
        {"eval_samples": 10},
    ],
)
def test_runs_that_differ_in_more_than_their_seed_are_not_averaged(tmp_path, other):
    settings = {"epochs": 4, "layers": 2}
    make_run(tmp_path / "a", VAE(**settings, seed=0))
    make_run(tmp_path / "b", VAE(**settings | other, seed=1))
    found = panels(tmp_path)
    groups = [group for panel in found for group in panel.groups]
    assert [len(group.runs) for group in groups] == [1, 1]
    labels = {(panel.title, group.label) for panel in found for group in panel.groups}
    assert len(labels) == 2  # and they can be told apart


def test_data_of_the_same_name_are_told_apart(tmp_path):
    make_run(tmp_path / "a", Bandit(epochs=1, seed=0))
    other = make_run(tmp_path / "b", Bandit(epochs=1, seed=1))
    rewrite(other.config, data={"name": "mnist", "fingerprint": "1" * 64})
    assert [panel.data for panel in panels(tmp_path)] == ["mnist 111111", "mnist 25c98f"]


def test_the_same_network_in_other_words_is_the_same(tmp_path):
    make_run(tmp_path / "a", VAE(epochs=2, layers=2, seed=0))
    make_run(tmp_path / "b", VAE(epochs=2, units=(200, 200), seed=1))
    make_run(tmp_path / "c", VAE(epochs=2, updates=2400, units=(200, 200), seed=2))
    (panel,) = panels(tmp_path)
    assert [len(group.runs) for group in panel.groups] == [3]
    assert panel.title == "vae, 2 layers, mnist, 2 epochs"


def test_labels_say_what_differs_and_no_more(tmp_path):
    make_run(tmp_path / "a", VAE(epochs=2, layers=2))
    make_run(tmp_path / "b", VAE(epochs=2, layers=2, prune_children=False))
    make_run(tmp_path / "c", VAE(epochs=2, layers=2, prune_children=False, downstream_only=False))
    (panel,) = panels(tmp_path)
    ablations = ["", ", no child pruning", ", no child pruning, full reward"]
    assert [group.label for group in panel.groups] == [f"hnca+baseline{a}" for a in ablations]
    assert [group.variant for group in panel.groups] == [0, 1, 2]


def test_a_label_means_the_same_in_all_panels_of_a_figure(tmp_path):
    for rate in (1e-4, 3e-4, 1e-3):
        make_run(tmp_path / f"short-{rate}", VAE(epochs=2, layers=2, learning_rate=rate))
    for rate in (1e-3, 1e-4):
        make_run(tmp_path / f"long-{rate}", VAE(epochs=3, layers=2, learning_rate=rate))
    found = [group for panel in panels(tmp_path) for group in panel.groups]
    rates = {group.label: group.settings["learning_rate"] for group in found}
    looks = {group.label: group.variant for group in found}
    assert all(rates[group.label] == group.settings["learning_rate"] for group in found)
    assert all(looks[group.label] == group.variant for group in found)
    assert sorted(looks.values()) == [0, 1, 2]


def test_what_most_have_in_common_goes_without_saying(tmp_path):
    common = {"epochs": 2, "layers": 1}
    for name in ("hnca", "reinforce"):
        make_run(tmp_path / name, Bandit(name, units=200, **common))
    make_run(tmp_path / "small", Bandit("hnca", units=50, **common))
    (panel,) = panels(tmp_path)
    assert [group.label for group in panel.groups] == ["hnca", "hnca, units 50", "reinforce"]
    make_run(tmp_path / "other", Bandit("reinforce", units=50, **common))  # now, two of each
    (panel,) = panels(tmp_path)
    units = [f"{method}, units {n}" for method in ("hnca", "reinforce") for n in (200, 50)]
    assert [group.label for group in panel.groups] == units


OTHER = [{"units": (50,)}, {"learning_rate": 1e-3}, {"train_size": 1000}, {"epochs": 3}]


@pytest.mark.parametrize("other", OTHER)
def test_every_table_tells_its_rows_apart(tmp_path, other):
    usual = {"epochs": 2, "layers": 1}
    for number, layers in enumerate((1, 2, 2)):  # in panels of their own, and most are alike
        run = VAE("hnca", **usual | {"layers": layers}, seed=number)
        make_run(tmp_path / f"{number}", run, data="own")
    make_run(tmp_path / "other", VAE("hnca", **usual | other), data="own")
    collection = collect(tmp_path)
    found = panels_of(collection.runs)
    tables = [*final_tables(found), bounds_table(found), runs_table(collection, found, tmp_path)]
    for table in tables:
        told = ("layers", "method", "epochs", "seed", "data")
        rows = [tuple(row[name].text for name in told if name in row) for row in table.rows]
        assert len(set(rows)) == len(rows)
        ((name, _),) = other.items()
        if name != "epochs":  # it has a column
            assert all(name.replace("_", " ") in row["method"].text for row in table.rows)


def test_every_run_says_its_pace_and_machine(tmp_path):
    run = make_run(tmp_path / "a", Bandit(epochs=3))
    times = (2.0, 1000.0, 1.0)  # it was stopped for a while
    run.write_metrics([e | {"seconds": s} for e, s in zip(run.read_metrics(), times, strict=True)])
    rewrite(run.config, machine="Abacus 3000, 2 cores", earlier=[{"device": "1 x slide rule"}])
    make_run(tmp_path / "begun", Bandit(epochs=3, seed=1), done=0)
    collection = collect(tmp_path)
    found = panels_of(collection.runs)
    first, begun = runs_table(collection, found, tmp_path).rows
    machine = "Abacus 3000, 2 cores, 1 x cpu, float32; before, 1 x slide rule"
    assert (first["s/epoch"].text, first["machine"].text) == ("2", machine)
    assert (begun["s/epoch"].text, begun["machine"].text) == ("-", "1 x cpu, float32")
    (table,) = final_tables(found)
    assert (table.rows[0]["s/epoch"].text, table.rows[0]["machine"].text) == ("2", machine)
    line = curves_data(found)[0]["metrics"][0]["lines"][0]
    assert line["seconds"] == [2.0, 4.0, 6.0]


# What is not in the means


def test_unfinished_runs_are_named_and_not_averaged(tmp_path):
    for seed in (0, 1):
        make_run(tmp_path / f"{seed}", Bandit(epochs=4, seed=seed))
    make_run(tmp_path / "2", Bandit(epochs=4, seed=2), done=3)
    make_run(tmp_path / "3", Bandit(epochs=4, seed=3), done=0)
    (panel,) = panels(tmp_path)
    (group,) = panel.groups
    assert group.final("test_accuracy").n == 2
    assert [run.progress for run in group.unfinished] == ["3 of 4 epochs", "0 of 4 epochs"]
    labels = [line["label"] for line in curves_data([panel])[0]["metrics"][0]["lines"]]
    assert labels == ["hnca+baseline", "hnca+baseline, seed 2 (unfinished: 3 of 4 epochs)"]


def test_a_run_that_goes_on_is_unfinished_and_its_evaluation_is_old(tmp_path):
    directory = make_run(tmp_path / "a", VAE(epochs=4, layers=1))
    evaluated(directory, -100.0)
    assert collect(tmp_path).runs[0].evaluation["test_bound"] == -100
    settings = json.loads(directory.config.read_text())["settings"]
    rewrite(directory.config, settings=settings | {"epochs": 6})
    measured = {"step": 6000, "seconds": 2.0, "train_elbo": -1.0, "gradient_variance": 1.0}
    directory.append({"epoch": 5} | measured)
    (run,) = collect(tmp_path).runs
    assert (run.complete, run.progress, run.evaluation) == (False, "5 of 6 epochs", {})


DAMAGE = {
    "config.json": ["{", "[]", '{"task": "vae", "settings": {}, "data": {}}', "\udcff"],
    "metrics.jsonl": [
        '{"epoch": 2}\n',
        "[]\n",
        '{"epoch": 1}\n{"epoch": 2}\n',
        '{"epoch": 1, "train_elbo": NaN}\n',
    ],
    "summary.json": ["{", "[]", '{"epochs": 2, "final": {"test_bound": "high"}}'],
}


@pytest.mark.parametrize(
    ("file", "text"), [(file, text) for file, texts in DAMAGE.items() for text in texts]
)
def test_damaged_runs_are_named(tmp_path, file, text):
    make_run(tmp_path / "good", VAE(epochs=2, layers=1, seed=0))
    directory = make_run(tmp_path / "bad", VAE(epochs=2, layers=1, seed=1))
    (directory.path / file).write_text(text, errors="surrogateescape")
    collection = collect(tmp_path)
    assert [run.path.name for run in collection.runs] == ["good"]
    ((path, reason),) = collection.damaged
    assert path.name == "bad"
    assert reason


def test_settings_that_make_no_sense_are_damage(tmp_path):
    directory = make_run(tmp_path / "bad", Bandit(epochs=2))
    settings = json.loads(directory.config.read_text())["settings"]
    for change in ({"layers": "three"}, {"estimator": "magic"}, {"colour": "red"}, {"seed": "x"}):
        rewrite(directory.config, settings=settings | change)
        assert collect(tmp_path).damaged[0].path == directory.path
    (tmp_path / "bad" / "config.json").unlink()
    assert "no config.json" in collect(tmp_path).damaged[0].reason


# Experiments that are not built in

ODD = {
    "estimator": "mine$^$",
    "epochs": 3,
    "rule": "a, b = 2",
    "parts": ["x", None, [1, [None]]],
    "nested": {"a": None},
    "path": "=1+1",
    "missing": None,
}


def make_own(path: Path, seed: int = 0, done: int | None = None, **changes):
    """A run of an experiment that is nowhere on this machine."""
    directory = make_run(path, Bandit(epochs=3, seed=seed), done=done)
    for file in (directory.metrics, directory.summary):
        if file.exists():
            file.write_text(file.read_text().replace("_accuracy", "_score"))
    described = {"title": "mine-2", "measure": "score", "told": ["rule"]}
    own = {"task": "somewhere/mine.py:Mine", "settings": ODD | {"seed": seed}}
    rewrite(directory.config, **described | own | changes)
    return directory


def test_experiments_that_are_not_here_are_read_and_not_imported(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "somewhere").mkdir()
    (tmp_path / "somewhere" / "mine.py").write_text("open('imported', 'w')")
    for seed in (0, 1):
        make_own(tmp_path / "runs" / f"{seed}", seed)
    make_own(tmp_path / "runs" / "short", 2, done=1)
    collection = collect(tmp_path / "runs")
    assert not collection.damaged
    assert not (tmp_path / "imported").exists()
    (panel,) = panels_of(collection.runs)
    assert panel.title == "somewhere/mine.py:Mine, mnist, 3 epochs"
    (group,) = panel.groups
    assert (group.label, len(group.runs), len(group.unfinished)) == ("mine$^$", 2, 1)
    assert group.final("test_score").n == 2
    (drawing,) = drawings([panel])
    assert drawing.name == "somewhere-mine.py-Mine-mnist"
    left, middle, right = draw_figure(drawing).axes
    assert left.get_ylabel() == right.get_ylabel() == "score"
    assert "variance" in middle.get_ylabel()
    (table,) = final_tables([panel])
    assert table.title == "somewhere/mine.py:Mine"
    measured = ["training score", "test score", "ln variance"]
    assert table.columns == [*FINAL[:4], *measured, *FINAL[4:]]
    assert table.rows[0]["layers"].text == "-"


FINAL = ["layers", "method", "epochs", "seeds", "s/epoch", "machine", "data"]


def test_experiments_that_are_not_here_are_on_the_page(tmp_path):
    make_own(tmp_path / "runs" / "own", data=None)
    write_report(collect(tmp_path / "runs"), tmp_path / "report")
    page = (tmp_path / "report" / "index.html").read_text()
    assert page.count("<h3>somewhere/mine.py:Mine</h3>") == 2  # last values, and settings
    assert (tmp_path / "report" / "figures" / "somewhere-mine.py-Mine.png").exists()
    with open(tmp_path / "report" / "results.csv", newline="") as file:
        (row,) = csv.DictReader(file)
    assert row["path"].endswith("own")
    assert row["setting_path"] == "'=1+1"
    assert float(row["final_test_score"]) > 0


@pytest.mark.parametrize("name", ["estimator", "rule", "parts", "nested", "missing"])
def test_own_settings_keep_runs_apart(tmp_path, name):
    make_own(tmp_path / "a", 0)
    make_own(tmp_path / "b", 1, settings=ODD | {"seed": 1, name: ["other", None]})
    (panel,) = panels(tmp_path)
    assert [len(group.runs) for group in panel.groups] == [1, 1]
    assert len({group.label for group in panel.groups}) == 2
    assert [group.variant for group in panel.groups] == [0, 1]  # other methods share a colour


def test_runs_of_other_code_are_not_averaged(tmp_path):
    for seed, source in enumerate(("1" * 64, "2" * 64)):
        make_own(tmp_path / f"{seed}", seed, versions={"experiment": source})
    (panel,) = panels(tmp_path)
    labels = [f"mine$^$, experiment file {digit * 8}" for digit in "12"]
    assert [group.label for group in panel.groups] == labels


def test_the_title_stands_for_a_method_and_says_what_it_tells_once(tmp_path):
    settings = {"epochs": 3, "seed": 0, "rate": 0.1}
    make_own(tmp_path / "a", title="mine-1", settings=settings | {"rule": 1})
    make_own(tmp_path / "b", title="mine-2", settings=settings | {"rule": 2})
    make_own(tmp_path / "c", title="mine-2", settings=settings | {"rule": 2, "rate": 0.2})
    (panel,) = panels(tmp_path)
    assert [group.label for group in panel.groups] == ["mine-1", "mine-2", "mine-2, rate 0.2"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"task": "gone"}, None),
        ({"title": None}, "'title' in config.json is None"),
        ({"measure": 3}, "'measure' in config.json is 3"),
        ({"told": "rule"}, "'told' in config.json is 'rule'"),
        ({"settings": {"epochs": 3}}, "setting 'seed' in config.json is None"),
        ({"settings": {"epochs": "3", "seed": 0}}, "setting 'epochs' in config.json is '3'"),
        ({"measure": "fun"}, "metrics.jsonl has epochs without train_fun"),
    ],
)
def test_own_experiments_that_say_too_little_are_damaged(tmp_path, changes, reason):
    make_own(tmp_path / "run", **changes)
    damaged = collect(tmp_path).damaged
    assert [each.reason for each in damaged] == ([reason] if reason else [])


@pytest.mark.parametrize("name", ["title", "measure", "told"])
def test_unknown_tasks_have_to_describe_themselves(tmp_path, name):
    directory = make_own(tmp_path / "run")
    config = json.loads(directory.config.read_text())
    del config[name]
    directory.config.write_text(json.dumps(config))
    (damaged,) = collect(tmp_path).damaged
    assert damaged.reason == (
        "task 'somewhere/mine.py:Mine' is none of bandit, conv-bandit, vae, conv-vae, "
        f"and config.json has no '{name}'"
    )


def test_figures_of_names_that_look_alike_do_not_share_a_file(tmp_path):
    for number, task in enumerate(("a/b.py:M", "a-b.py:M")):
        make_own(tmp_path / f"{number}", task=task)
    found = drawings(panels(tmp_path))
    assert [each.name for each in found] == ["a-b.py-M-mnist", "a-b.py-M-mnist-2"]
    assert [each.title for each in found] == ["a-b.py:M on mnist", "a/b.py:M on mnist"]


def test_duplicates_count_once_and_the_evaluated_one(tmp_path):
    make_run(tmp_path / "a", VAE(epochs=2, layers=1))
    evaluated(make_run(tmp_path / "b", VAE(epochs=2, layers=1)), -100.0)
    collection = collect(tmp_path)
    assert [run.path.name for run in collection.runs] == ["b"]
    assert [(a.path.name, b.path.name) for a, b in collection.duplicates] == [("a", "b")]
    assert not collection.duplicates[0].disagreement
    assert len(attention(collection)) == 1


def test_duplicates_with_different_results_are_told(tmp_path):
    make_run(tmp_path / "a", VAE(epochs=4, layers=1))
    other = make_run(tmp_path / "b", VAE(epochs=4, layers=1))
    entries = other.read_metrics()
    times = [entry | {"seconds": 7.0} for entry in entries]
    other.write_metrics(times)
    assert not collect(tmp_path).duplicates[0].disagreement  # time is no result
    times[2]["gradient_variance"] *= 1 + 1e-12
    times[3]["train_elbo"] = -1.0
    other.write_metrics(times)
    collection = collect(tmp_path)
    ((_, _),) = collection.duplicates
    assert "gradient_variance is" in collection.duplicates[0].disagreement
    assert "after epoch 3" in collection.duplicates[0].disagreement
    (line,) = attention(collection)
    assert "DIFFERENT results" in line
    assert "different results" in results(collection)
    table = runs_table(collection, panels_of(collection.runs), tmp_path)
    assert "DIFFERENT results" in table.rows[1]["remarks"].text


def test_runs_are_found_at_any_depth_and_once(tmp_path):
    make_run(tmp_path / "x" / "y" / "run", Bandit(epochs=1))
    make_run(tmp_path / "x" / ".hidden", Bandit(epochs=1))
    inner = tmp_path / "x" / "y" / "run" / "checkpoint"
    inner.mkdir()
    (inner / "config.json").write_text("{}")
    assert find_runs([tmp_path, tmp_path / "x" / "y" / "run"]) == [tmp_path / "x" / "y" / "run"]
    (empty := tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="no such directory"):
        find_runs([tmp_path / "nowhere"])
    with pytest.raises(UserError, match="no runs in"):
        find_runs([empty])


# Beside the paper


def test_the_papers_numbers():
    published = published_bounds.__wrapped__()  # one of our own
    means = {
        "hnca": [-107.5, -103.7, -102.1],
        "hnca+baseline": [-97.3, -94.6],  # with 2 and 3 layers
        "disarm": [-108.2, -99.27, -96.7],
        "loo": [-108.3, -99.5, -96.9],
        "reinforce": [-120.1, -115.1, -114.7],
        "reinforce+baseline": [-110.6, -102.8, -100.2],
    }
    halves = {(m, n): 0.1 for m in means for n in (1, 2, 3) if (m, n) != ("hnca+baseline", 1)}
    for cell in [("hnca", 3), ("hnca+baseline", 3), ("disarm", 1), ("reinforce", 1)]:
        halves[cell] = 0.2
    halves |= {("reinforce+baseline", 2): 0.2, ("disarm", 2): 0.06}
    for method, row in means.items():
        for layers, mean in zip(range(4 - len(row), 4), row, strict=True):
            half = halves.pop((method, layers))
            assert published.values.pop((method, layers)) == Interval(mean, half, 5)
    assert not published.values
    assert "Table" in published.source


def bound_row(tmp_path, estimator="hnca", layers=1):
    rows = compare_bounds(panels(tmp_path))
    return next(row for row in rows if (row.method, row.layers) == (estimator, layers))


def test_bounds_agree_with_the_paper_or_not(tmp_path):
    runs = [make_run(tmp_path / f"{s}", VAE(layers=1, estimator="hnca", seed=s)) for s in (0, 1)]
    for run, bound in zip(runs, (-107.6, -107.5), strict=True):
        evaluated(run, bound)
    row = bound_row(tmp_path)
    assert row.ours.interval.mean == pytest.approx(-107.55)
    assert row.ours.interval.half == pytest.approx(12.7062 * 0.05, rel=1e-5)
    assert row.difference == pytest.approx(-0.05)
    room = 0.1 * math.sqrt(1 + 5 / 2)
    assert (row.verdict, row.ours.source) == (f"yes: within ± {room:.2f}", "hnca evaluate")
    for run, bound in zip(runs, (-109.001, -109.0), strict=True):
        evaluated(run, bound)
    assert bound_row(tmp_path).verdict == f"NO: beyond ± {room:.2f}"
    assert len(compare_bounds(panels(tmp_path))) == 17  # what was not run is there as well
    assert bound_row(tmp_path, "loo", 3).verdict == "no complete run"


def test_what_is_not_the_papers_experiment_is_not_compared(tmp_path):
    run = make_run(tmp_path / "a", VAE(layers=1, estimator="hnca", epochs=40, learning_rate=1e-3))
    evaluated(run, -120.0, samples=10)
    verdict = bound_row(tmp_path).verdict
    assert verdict == (
        "not comparable: 40 of 840 epochs, learning rate 0.001, 10 samples instead of 100"
    )
    rows = compare_bounds(panels(tmp_path))
    cell = [row.verdict for row in rows if (row.method, row.layers) == ("hnca", 1)]
    assert cell == [verdict, "no complete run"]  # the paper's own cell is still missing
    rewrite(run.config, data={"name": "glyphs", "fingerprint": "1"})
    rows = compare_bounds(panels(tmp_path))
    assert [row.verdict for row in rows] == ["not in the paper"]  # so the paper's stay away
    assert not {"paper", "difference"} & set(bounds_table(panels(tmp_path)).columns)


def test_what_compares_with_the_paper_comes_first(tmp_path):
    make_run(tmp_path / "own", VAE("arm", layers=1))
    make_run(tmp_path / "a", VAE("hnca", layers=3))
    make_run(tmp_path / "short", VAE("hnca", layers=2, epochs=40))
    rows = compare_bounds(panels(tmp_path))
    first = [(row.method, row.layers) for row in rows[:3]]
    assert first == [("hnca", 3), ("hnca", 2), ("arm", 1)]
    assert len(rows) == 19
    assert all(row.ours is None for row in rows[3:])


def test_one_seed_has_no_interval_and_says_so(tmp_path):
    run = make_run(tmp_path / "a", VAE(layers=1, estimator="hnca"))
    evaluated(run, -107.44)
    assert bound_row(tmp_path).ours.interval.half is None
    assert bound_row(tmp_path).verdict == "yes: within ± 0.24"  # 0.1 times the root of 6
    evaluated(run, -107.75)
    assert bound_row(tmp_path).verdict == "NO: beyond ± 0.24"
    assert "√(1 + its seeds / our seeds)" in bounds_table(panels(tmp_path)).note


@pytest.mark.parametrize("count", ["samples", "images", "examples"])
def test_evaluations_of_other_counts_are_not_averaged(tmp_path, count):
    for seed, counted in ((0, 100), (1, 1000)):
        run = make_run(tmp_path / f"{seed}", VAE(layers=1, estimator="hnca", seed=seed))
        evaluated(run, -107.4, **{count: counted})
    ours = bound_row(tmp_path).ours
    assert (ours.source, ours.samples) == ("test after training", 100)


# Figures


def test_last_values_do_not_overlap_and_ablations_have_their_own_figure(tmp_path):
    for seed, method in enumerate(("hnca", "hnca+baseline", "loo", "disarm", "reinforce")):
        make_run(tmp_path / method, VAE(epochs=3, layers=2, estimator=method))
        make_run(tmp_path / f"b{seed}", Bandit(epochs=3, seed=seed))
    make_run(tmp_path / "ablated", VAE(epochs=3, layers=2, prune_children=False))
    found = {each.name: each for each in drawings(panels(tmp_path))}
    assert list(found) == ["bandit-mnist", "vae-ablation-mnist", "vae-mnist"]
    whole, ablated = found["vae-mnist"].rows[0], found["vae-ablation-mnist"].rows[0]
    assert len(whole.groups) == 5
    assert [group.method for group in ablated.groups] == ["hnca+baseline"] * 2
    for axes in draw_figure(found["vae-mnist"]).axes[:2]:
        boxes = sorted((text.get_window_extent() for text in axes.texts), key=lambda box: box.y0)
        assert len(boxes) == 6  # with the word above them
        assert all(a.y1 <= b.y0 for a, b in itertools.pairwise(boxes))
        assert len([line for line in axes.lines if line.get_gid() == "joint"]) == 5


@pytest.mark.parametrize("every", [1, 2, 100])
def test_lines_have_one_meaning_and_say_it(tmp_path, every):
    make_run(tmp_path / "a", Bandit("hnca", epochs=4, layers=1, eval_every=every))
    (drawing,) = drawings(panels(tmp_path))
    figure = draw_figure(drawing)
    for axes in (figure.axes[0], figure.axes[2]):
        train, test = (line for line in axes.lines if line.get_gid() != "joint")
        assert (len(train.get_xdata()), train.get_marker()) == (4, "None")
        assert len(test.get_xdata()) == {1: 4, 2: 2, 100: 1}[every]  # the last is in the summary
        assert train.get_linewidth() < test.get_linewidth() or test.get_marker() == "o"
        assert train.get_linestyle() == "-"
    assert "training" in [text.get_text() for text in figure.axes[0].texts]
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["hnca", "thin: training", "thick, or dots: test"]
    run = collect(tmp_path).runs[0]
    seconds = figure.axes[2].lines[0].get_xdata()
    np.testing.assert_allclose(seconds, run.pace * np.arange(1, 5))


def test_bands_are_of_three_seeds_and_no_wider_than_possible(tmp_path):
    for seed in (0, 1):
        make_run(tmp_path / f"{seed}", Bandit("hnca", epochs=3, seed=seed))
    (panel,) = panels(tmp_path)
    two = panel.groups[0].curve("train_accuracy")
    assert two.band is None
    assert two.half is not None  # it is in tables
    line = curves_data([panel])[0]["metrics"][0]["lines"][0]
    assert line["band"] is None
    np.testing.assert_allclose(line["each"], two.seeds, rtol=1e-4)
    assert np.subtract(*draw_figure(drawings([panel])[0]).axes[0].get_ylim()[::-1]) < 1
    wild = make_run(tmp_path / "2", Bandit("hnca", epochs=3, seed=2))
    wild.write_metrics([entry | {"train_accuracy": 0.99} for entry in wild.read_metrics()])
    low, high = panels(tmp_path)[0].groups[0].curve("train_accuracy").band
    assert low.min() == 0  # without a limit, it would be negative
    assert high.max() == 1


def test_metrics_of_layers_need_not_be_known(tmp_path):
    run = make_run(tmp_path / "a", VAE(epochs=2, layers=2, eval_every=1))
    layers = {"active_units/h10": 7.0, "active_units/h2": 0.5, "odd/h1": 1.0}
    run.write_metrics([entry | layers for entry in run.read_metrics()])
    final = json.loads(run.summary.read_text())["final"]
    rewrite(run.summary, final=final | layers)
    names = [metric["name"] for metric in curves_data(panels(tmp_path))[0]["metrics"]]
    assert names[-3:] == ["active units, h10", "active units, h2", "odd, h1"]  # as written
    (table,) = final_tables(panels(tmp_path))
    assert table.rows[0]["active units, h10"].text == "7"
    assert table.rows[0]["odd, h1"].text == "1.000"


# What eyes of other kinds see of linear RGB (Machado, Oliveira and Fernandes 2009), and OKLab
SIGHT = {
    "all cones": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "no L": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "no M": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "no S": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}
LMS = [[0.4122, 0.5363, 0.0514], [0.2119, 0.6807, 0.1074], [0.0883, 0.2817, 0.6300]]
LAB = [[0.2105, 0.7936, -0.0041], [1.9780, -2.4286, 0.4506], [0.0259, 0.7828, -0.8087]]


@pytest.mark.parametrize("sight", SIGHT)
def test_colours_tell_apart(sight):
    """Those that are different, that is: families share one, and have dashes."""
    assert set(REGISTRY) <= set(COLORS)
    assert max(list(COLORS.values()).count(each) for each in COLORS.values()) <= len(DASHES)
    hexes = [[int(each[i : i + 2], 16) / 255 for i in (1, 3, 5)] for each in set(COLORS.values())]
    linear = ((np.array(hexes) + 0.055) / 1.055) ** 2.4
    seen = np.clip(linear @ np.array(SIGHT[sight]).T, 0, 1)
    lab = np.cbrt(seen @ np.array(LMS).T) @ np.array(LAB).T
    apart = np.linalg.norm(lab[:, None] - lab[None], axis=-1) + np.eye(len(lab))
    assert apart.min() > (0.12 if sight == "all cones" else 0.08)
    luminance = linear @ [0.2126, 0.7152, 0.0722]
    assert (1.05 / (luminance + 0.05)).min() > 3  # against white


# Files


def test_long_curves_are_thinned_and_keep_their_ends(tmp_path):
    make_run(tmp_path / "a", Bandit(epochs=1000))
    line = curves_data(panels(tmp_path))[0]["metrics"][0]["lines"][0]
    assert len(line["epochs"]) == len(line["mean"]) == POINTS
    assert (line["epochs"][0], line["epochs"][-1]) == (1, 1000)


NASTY = "<script>alert(1)</script> $^$"


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Of good, unfinished, damaged and hostile runs."""
    place = tmp_path_factory.mktemp("report")
    runs = place / "runs"
    for seed in (0, 1):
        make_run(runs / f"good {seed}", ConvBandit(epochs=3, seed=seed))
    make_run(runs / "short", ConvBandit(epochs=3, seed=2), done=1)
    make_run(runs / "copy", ConvBandit(epochs=3, seed=1))
    hostile = runs / NASTY.replace("/", "")
    make_run(hostile, Bandit(epochs=2), data=NASTY).metrics.with_name("curves.png").touch()
    make_run(runs / "bad", Bandit(epochs=2)).config.write_text(NASTY)
    write_report(collect(runs), place / "report")
    return place / "report"


def test_csv_has_a_row_for_each_run(report):
    with open(report / "results.csv", newline="") as file:
        rows = {Path(row["path"]).name: row for row in csv.DictReader(file)}
    assert {name: row["status"] for name, row in rows.items()} == {
        "good 0": "complete",
        "copy": "complete",
        "good 1": "duplicate",
        "short": "unfinished",
        "bad": "damaged",
        NASTY.replace("/", ""): "complete",
    }
    good = rows["good 0"]
    assert (good["task"], good["dataset"], good["seed"]) == ("conv-bandit", "mnist", "0")
    assert (good["estimator"], good["learning_rate"]) == ("hnca+baseline", "0.0001")
    summary = json.loads((report.parent / "runs/good 0/summary.json").read_text())
    assert float(good["final_test_accuracy"]) == summary["final"]["test_accuracy"]
    assert rows["short"]["remarks"] == "1 of 3 epochs"
    assert "damaged" in rows["bad"]["remarks"]


def test_csv_has_a_row_for_each_epoch(report):
    """As it is in metrics.jsonl, a last test of the summary included."""
    with open(report / "epochs.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    count = Counter(Path(row["path"]).name for row in rows)
    lengths = {"good 0": 3, "good 1": 3, "copy": 3, "short": 1, NASTY.replace("/", ""): 2}
    assert count == lengths  # what is damaged has none
    path = report.parent / "runs/good 0"
    entries = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    entries[-1] |= json.loads((path / "summary.json").read_text())["final"]
    for entry, row in zip(entries, (row for row in rows if row["path"] == str(path)), strict=True):
        assert {name: float(row[name]) for name in entry} == entry
        assert (row["estimator"], row["seed"]) == ("hnca+baseline", "0")
        assert "." not in row["epoch"] + row["step"]


def test_texts_that_a_spreadsheet_would_run_are_texts(tmp_path):
    for number, name in enumerate(("=1+1", "+1", "-1", "@SUM(1)", "\t=1", "\r=1", "1-1")):
        make_run(tmp_path / "runs" / name, Bandit(epochs=1, seed=number), data=name)
    own = {"estimator": "=cmd", "rate": -0.5, "=name": "+x"}
    make_own(tmp_path / "runs" / "own", settings=ODD | own | {"seed": 0})
    make_run(tmp_path / "runs" / "bad", Bandit(epochs=1)).config.write_text("=1")
    found = collect(tmp_path / "runs")
    texts = [io.StringIO(results(found)), io.StringIO(epochs(found))]
    cells = [cell for text in texts for row in csv.reader(text) for cell in row]
    risky = [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]
    assert risky == ["-0.5"]  # a number
    assert {"'=1+1", "'+1", "'-1", "'@SUM(1)", "'\t=1", "' =1", "1-1", "'=name"} <= set(cells)


def test_what_comes_from_files_is_escaped(report):
    page = (report / "index.html").read_text()
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;" in page
    data = re.search(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL)
    assert data
    assert any(NASTY in panel["title"] for panel in json.loads(data[1]))


def test_the_page_names_its_runs_and_links_to_their_files(report):
    page = (report / "index.html").read_text()
    for remark in ("unfinished: 1 of 3 epochs", "duplicate of", "bad: damaged: "):
        assert remark in page
    links = [unquote(link) for link in re.findall(r'href="([^"#]*)"', page) if "data:" not in link]
    assert len([link for link in links if link.endswith("metrics.jsonl")]) == 6
    missing = [link for link in links if not (report / link).exists()]
    assert not missing
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in page


def test_a_report_replaces_a_report_and_nothing_else(report, tmp_path):
    runs, out = report.parent / "runs", tmp_path / "out"
    make_run(tmp_path / "one", ConvBandit(epochs=2))
    collection = collect(tmp_path / "one")
    write_report(collect(runs / "good 0"), out)
    write_report(collection, out)
    assert {path.name for path in tmp_path.iterdir()} == {"one", "out"}
    (out / "figures" / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match=r"holds more than a report \(notes.txt\)"):
        write_report(collection, out)
    with pytest.raises(UserError, match="holds more than a report"):
        write_report(collection, tmp_path / "one")
    assert (out / "figures" / "notes.txt").read_text() == "mine"


def test_the_command_line(report, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for arguments, message in (
        ([], "runs: no such directory"),
        ([str(tmp_path)], "no runs in"),
        ([str(report.parent), "-o", str(report.parent)], "holds more than a report"),
    ):
        with pytest.raises(SystemExit) as leaving:
            main(["report", *arguments])
        assert leaving.value.code == 1
        said = capsys.readouterr().err
        assert message in said
        assert said.count("\n") == 1
    with pytest.raises(SystemExit) as leaving:
        main(["report", str(report.parent / "runs")])
    assert leaving.value.code == 0
    said = capsys.readouterr().out
    assert "3 of 6 runs are complete" in said
    assert "short: unfinished: 1 of 3 epochs" in said
    assert (tmp_path / "report" / "index.html").exists()


def test_a_directory_that_vanishes_meanwhile_is_passed_over(tmp_path, monkeypatch):
    for name in ("a", "b", "c"):
        make_run(tmp_path / name, Bandit())
    scandir = os.scandir

    def vanish(path):
        if str(path) == str(tmp_path / "b"):
            shutil.rmtree(path)
        return scandir(path)

    monkeypatch.setattr("os.scandir", vanish)
    assert [path.name for path in find_runs([tmp_path])] == ["a", "c"]


def test_runs_are_found_through_links_but_not_in_circles(tmp_path):
    make_run(tmp_path / "elsewhere" / "run", Bandit(epochs=2))
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "link").symlink_to(tmp_path / "elsewhere" / "run")
    (tmp_path / "runs" / "circle").symlink_to(tmp_path / "runs")
    assert [path.name for path in find_runs([tmp_path / "runs"])] == ["link"]


def test_other_images_are_not_compared_with_the_paper(tmp_path):
    run = make_run(tmp_path / "run", VAE(layers=1, estimator="hnca"))
    assert bound_row(tmp_path).ours
    rewrite(run.config, data={"name": "mnist", "fingerprint": "1" * 64})
    rows = [row for row in compare_bounds(panels(tmp_path)) if row.ours]
    assert [row.verdict for row in rows] == ["not in the paper"]
