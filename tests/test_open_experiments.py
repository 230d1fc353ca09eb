"""Experiments of one's own, from the command line: trained, killed, resumed, swept, reported."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hnca.lab.cli import main
from hnca.lab.errors import UserError
from hnca.lab.experiments import (
    AbstractExperiment,
    Data,
    experiment_class,
    experiment_from,
    task_of,
)
from hnca.lab.training import RunDirectory
from test_cli import environment as environment
from test_cli import lines, wait_for
from test_runs import outcome

EXAMPLES = Path(__file__).parents[1] / "examples"
PATTERNS = f"{EXAMPLES / 'own_experiment.py'}:Patterns"
THERMOSTAT = f"{EXAMPLES / 'own_bandit.py'}:Thermostat"
SMALL = ["--units", "3", "--batch-size", "20", "--estimator", "reinforce"]


def command(*arguments, code=0):
    with pytest.raises(SystemExit) as leaving:
        main([str(each) for each in arguments])
    assert (leaving.value.code or 0) == code


@pytest.mark.parametrize("example", ["own_experiment.py", "own_bandit.py"])
def test_the_examples_are_short(example):
    assert (EXAMPLES / example).read_text().count("\n") < 80


@pytest.mark.slow
def test_killed_and_resumed_a_run_of_ones_own_ends_in_the_same_bits(tmp_path, environment):
    def start(out):
        settings = [*SMALL, "--examples", "40", "--epochs", "60", "--out", str(out)]
        arguments = [sys.executable, "-m", "hnca", "train", PATTERNS, *settings]
        return subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE, text=True)

    whole, out = start(tmp_path / "whole"), tmp_path / "run"
    said = whole.communicate()[0]
    assert whole.returncode == 0, said
    assert "40 + 8 examples" in said
    process = start(out)
    wait_for(process, lambda: lines(out / "metrics.jsonl") >= 5)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    last = start(out)
    assert "going on after epoch" in last.communicate()[0]
    assert outcome(out) == outcome(tmp_path / "whole")


@pytest.mark.slow
def test_a_plan_of_ones_own_experiments_and_its_report(tmp_path, capsys, environment):
    """Workers import the file; evaluating asks for its name; the report imports nothing."""
    plan, out = tmp_path / "mine.toml", tmp_path / "runs"
    relative = os.path.relpath(EXAMPLES / "own_experiment.py", tmp_path)
    settings = 'units = [2, 3]\nestimator = "reinforce"\nexamples = 40\nbatch_size = 20\nepochs = 2'
    plan.write_text(f'[[grid]]\ntask = "{relative}:Patterns"\n{settings}\n')
    hnca = lambda *arguments: subprocess.run(
        [sys.executable, "-m", "hnca", *map(str, arguments)],
        env=environment,
        check=True,
        capture_output=True,
        cwd=tmp_path,
    )
    hnca("sweep", plan, "--out", out, "--workers", 1)
    found = sorted(path for path in out.iterdir() if path.is_dir())
    assert len(found) == 2
    config = RunDirectory(found[0]).read_config()
    assert config["task"] == "own_experiment.py:Patterns"
    command("evaluate", found[0], code=1)
    assert "--task own_experiment.py:Patterns" in capsys.readouterr().err
    hnca("evaluate", found[0], "--task", PATTERNS)
    evaluated = json.loads((found[0] / "summary.json").read_text())["evaluation"]
    assert evaluated["examples"] == 8
    assert np.isfinite(evaluated["test_bound_standard_error"])
    before = set(sys.modules)
    command("report", out, "-o", tmp_path / "report")
    assert "own_experiment.py:Patterns" in (tmp_path / "report" / "index.html").read_text()
    assert not {name for name in set(sys.modules) - before if "own_experiment" in name}


def test_a_simulator_is_a_world_and_examples_have_weights(tmp_path, capsys):
    settings = ["--units", "4", "--epochs", "2", "--learning-rate", "0.05", "--seeds", "0", "1"]
    command("train", THERMOSTAT, *settings, "--out", tmp_path)
    assert "5,000 + 1,000 examples" in capsys.readouterr().out
    for seed in (0, 1):
        first, last = RunDirectory(
            tmp_path / f"thermostat-hnca+baseline-learning-rate-0.05-units-4-{seed}"
        ).read_metrics()
        assert last["train_comfort"] > first["train_comfort"]


FILE = """
from dataclasses import dataclass
from hnca.lab.experiments import AbstractExperiment
{more}
@dataclass(frozen=True)
class Mine(AbstractExperiment):
    pass
"""


@pytest.mark.parametrize(
    ("content", "task", "message"),
    [
        (None, "none.py:Mine", "no file none.py"),
        (FILE, "file.py:Yours", "has no experiment 'Yours': there is none"),
        (FILE, "file.py:Mine", "is not finished: it has no data, graph, step, test"),
        (FILE.replace("{more}", "1 / 0"), "file.py:Mine", "line 4: ZeroDivisionError"),
        (FILE.replace("{more}", "if"), "file.py:Mine", "line 4: SyntaxError"),
        (FILE, "bandits", "choose one of bandit, conv-bandit, vae, conv-vae, or FILE.py:CLASS"),
    ],
)
def test_a_task_that_is_none_is_refused_in_a_line(tmp_path, content, task, message):
    if content is not None:
        (tmp_path / "file.py").write_text(content.replace("{more}", ""))
    with pytest.raises(UserError, match=message):
        experiment_class(task, tmp_path)


def test_a_slip_in_ones_own_file_is_not_called_ours(tmp_path, capsys):
    path = tmp_path / "file.py"
    path.write_text((EXAMPLES / "own_experiment.py").read_text().replace('{"x": rows["x"]}', "{}"))
    command("train", f"{path}:Patterns", "--out", tmp_path / "run", code=1)
    *_, last = capsys.readouterr().err.splitlines()
    assert last.startswith(f"error: {path}:Patterns: ValueError: missing array 'x'")
    assert "report it" not in last
    assert "HNCA_TRACEBACK=1" in last


def test_a_configuration_imports_nothing(tmp_path):
    (tmp_path / "file.py").write_text("raise SystemExit('imported')")
    with pytest.raises(UserError, match="name its file"):
        experiment_from({"task": f"{tmp_path / 'file.py'}:Mine", "settings": {}})


def test_a_class_is_found_again_by_its_task():
    kind = experiment_class(PATTERNS)
    assert experiment_class(task_of(kind)) is kind
    assert issubclass(kind, AbstractExperiment)


def test_data_must_have_a_row_for_each_example():
    with pytest.raises(UserError, match="the same number of rows"):
        Data({"x": np.zeros(3), "y": np.zeros(2)}, {"x": np.zeros(3), "y": np.zeros(3)})
    with pytest.raises(UserError, match="no arrays"):
        Data({}, {})
    one, two = (Data({"x": np.zeros((4, 2))}, {"x": np.full((4, 2), value)}) for value in (0, 1))
    assert one.fingerprint != two.fingerprint
    assert one.first(2, 1).train["x"].shape == (2, 2)


def test_settings_of_a_type_that_no_flag_has_are_refused(tmp_path, capsys):
    body = "\n".join(f"    def {name}(self, *_): ..." for name in ("data", "graph", "step", "test"))
    content = FILE.replace("{more}", "").replace("    pass", f"    sizes: dict = None\n{body}")
    (tmp_path / "file.py").write_text(content)
    command("train", f"{tmp_path / 'file.py'}:Mine", code=1)
    assert "Mine.sizes has the type" in capsys.readouterr().err
