"""Who gets what is measured: reporters of one's own, TensorBoard, and what happens when runs are
interrupted."""

import doctest
import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from hnca.lab.cli import main
from hnca.lab.experiments import VAE
from hnca.lab.training import Reporter, Run, RunDirectory, TensorBoard, train, train_side_by_side
from hnca.lab.training.tensorboard import FILES, read_events
from test_cli import TRAIN, stripes  # noqa: F401
from test_runs import DATA, DiesAfter, Killed
from test_side_by_side import CHEAP, no_curves  # noqa: F401
from test_sweep import here, plan, sweep  # noqa: F401

pytestmark = pytest.mark.usefixtures("no_curves")
EXAMPLE = Path(__file__).parents[1] / "examples" / "wandb_reporter.py"


class Notes:
    """Writes down what it is told, and of which seed."""

    def __init__(self):
        self.heard = []

    def begin(self, run, data):
        self.heard.append(("begin", run.experiment.seed, [each["epoch"] for each in run.entries]))

    def epoch(self, run, entry):
        assert run.directory.read_metrics()[-1] == entry  # it is on the disk already
        self.heard.append(("epoch", run.experiment.seed, entry["epoch"]))
        entry.clear()  # its own copy

    def end(self, run, summary):
        self.heard.append(("end", run.experiment.seed, summary and summary["epochs"]))


def once(path, experiment=CHEAP, display=None, reporters=()):
    data, directory = experiment.images(DATA), RunDirectory(path)
    return train(experiment, data, directory, display, reporters=reporters)


def test_a_reporter_hears_of_every_epoch_once(tmp_path):
    notes = Notes()
    with pytest.raises(Killed):
        once(tmp_path, display=DiesAfter(2), reporters=[notes])
    assert notes.heard == [("begin", 0, []), ("epoch", 0, 1), ("epoch", 0, 2), ("end", 0, None)]
    notes = Notes()
    summary = once(tmp_path, reporters=[notes])
    assert notes.heard == [("begin", 0, [1, 2]), ("epoch", 0, 3), ("end", 0, 3)]
    assert summary["final"]["epoch"] == 3
    once(tmp_path, reporters=[again := Notes()])
    assert again.heard == [("begin", 0, [1, 2, 3]), ("end", 0, 3)]
    assert isinstance(notes, Reporter)


def test_runs_side_by_side_report_for_themselves(tmp_path):
    once(tmp_path / "0", replace(CHEAP, epochs=1))
    notes = Notes()
    runs = [Run(replace(CHEAP, epochs=2, seed=s), RunDirectory(tmp_path / str(s))) for s in (0, 7)]
    train_side_by_side(runs, CHEAP.images(DATA), reporters=[notes])
    behind, both = [("begin", 0, [1]), ("begin", 7, []), ("epoch", 7, 1)], [0, 7]
    assert notes.heard[:3] == behind
    assert notes.heard[3:5] == [("epoch", seed, 2) for seed in both]
    assert notes.heard[5:] == [("end", seed, 2) for seed in both]


def test_a_reporter_that_fails_ends_the_training_and_loses_nothing(tmp_path):
    class Broken(Notes):
        def epoch(self, run, entry):
            super().epoch(run, dict(entry))
            raise RuntimeError("the service is down")

        def end(self, run, summary):
            raise RuntimeError("and still is")

    other = Notes()
    with pytest.raises(RuntimeError, match="the service is down"):
        once(tmp_path, reporters=[other, Broken()])
    assert other.heard[-2:] == [("epoch", 0, 1), ("end", 0, None)]
    assert len(RunDirectory(tmp_path).read_metrics()) == 1
    assert once(tmp_path)["epochs"] == 3


def test_the_example_of_the_protocol(tmp_path, capsys):
    [best] = doctest.DocTestFinder(recurse=False).find(Reporter, "Reporter", globs={})
    runner = doctest.DocTestRunner()
    runner.run(best, clear_globs=False)
    assert runner.failures == 0
    once(tmp_path, reporters=[best.globs["Best"]()])
    assert re.fullmatch(r"bandit-1-reinforce: \d+%\n", capsys.readouterr().out)


# TensorBoard


def events(path):
    """By tag, the values by step; every step comes once, in order."""
    [file] = path.glob(FILES)
    found = {}
    for event in read_events(file):
        for value in event.summary.value:
            steps = found.setdefault(value.tag, {})
            assert event.step > max(steps, default=0), f"{value.tag} has {event.step} late or twice"
            steps[event.step] = value.image if value.HasField("image") else value.simple_value
    return found


def measured(path):
    """The same of the run's own files."""
    directory, found = RunDirectory(path), {}
    entries = directory.read_metrics()
    final = directory.read_summary().get("final", {})
    for entry in [*entries[:-1], entries[-1] | final]:
        for name in (name for name in entry if name != "epoch"):
            found.setdefault(name, {})[entry["epoch"]] = pytest.approx(entry[name], rel=1e-6)
    return found


def test_tensorboard_has_what_was_measured_and_the_time_of_training(tmp_path):
    """Also of epochs that were done without it."""
    once(tmp_path, replace(CHEAP, epochs=1))
    once(tmp_path, reporters=[TensorBoard()])
    assert events(tmp_path) == measured(tmp_path)
    [file] = tmp_path.glob(FILES)
    times = [event.wall_time for event in read_events(file) if event.summary.value]
    seconds = [entry["seconds"] for entry in RunDirectory(tmp_path).read_metrics()]
    assert times[2] - times[0] == pytest.approx(sum(seconds[1:]), abs=1e-5)
    once(tmp_path, reporters=[TensorBoard()])  # of a run that is done
    assert events(tmp_path) == measured(tmp_path)


TINY_VAE = VAE(
    units=(3,), epochs=4, batch_size=12, eval_every=3, eval_samples=1, estimator="reinforce"
)


def cut(file):
    """As of a writer that was killed."""
    file.write_bytes(file.read_bytes()[:-7])


def blur(file):
    """A byte of the last event, which is a picture, is wrong."""
    content = bytearray(file.read_bytes())
    content[content.rindex(b"samples") - 3] ^= 0xFF
    file.write_bytes(content)


def leave(file):
    """As it is."""


SLOW = [pytest.param(each, marks=pytest.mark.slow) for each in (blur, Path.unlink, leave)]


@pytest.mark.parametrize("damage", [cut, *SLOW])
def test_tensorboard_has_no_gaps_and_nothing_twice(tmp_path, damage):
    """Whatever became of its file. The first epoch was without it."""
    once(tmp_path, replace(TINY_VAE, epochs=1))
    with pytest.raises(Killed):
        once(tmp_path, TINY_VAE, DiesAfter(2), [TensorBoard()])
    [file] = tmp_path.glob(FILES)
    damage(file)
    once(tmp_path, TINY_VAE, reporters=[TensorBoard()])
    found = events(tmp_path)
    pictures = found.pop("samples")
    assert found == measured(tmp_path)
    assert set(found["test_elbo"]) == {3, 4}  # the last one is in the summary only
    first = set() if damage is Path.unlink else {1}  # those of other epochs can be made again
    assert set(pictures) == first | {2, 4}
    assert (pictures[4].height, pictures[4].width) == (6 * 7 - 1, 12 * 7 - 1)
    assert len({bytes(each.encoded_image_string) for each in pictures.values()}) == len(pictures)


def test_epochs_that_are_done_again_are_told_once(tmp_path):
    """The last checkpoint is damaged: the run goes on from the one before."""
    once(tmp_path, reporters=[TensorBoard()])
    newest = max((tmp_path / "checkpoint").glob("epoch-*"))
    (newest / "arrays.npz").write_bytes(b"")
    with pytest.warns(UserWarning, match="checkpoint"):
        once(tmp_path, replace(CHEAP, epochs=4), reporters=[TensorBoard()])
    assert events(tmp_path) == measured(tmp_path)


# The command line


def command(*arguments, code=0):
    with pytest.raises(SystemExit) as leaving:
        main([str(each) for each in arguments])
    assert (leaving.value.code or 0) == code


def test_a_sweep_reports_and_makes_up_for_runs_that_are_done(tmp_path, plan, here, capfd):  # noqa: F811
    out = tmp_path / "out"
    (tmp_path / "own.py").write_text(
        "class Own:\n"
        "    def begin(self, run, data): pass\n"
        "    def epoch(self, run, entry):\n"
        "        with open(run.directory.path / 'own', 'a') as file:\n"
        "            print(entry['epoch'], file=file)\n"
        "    def end(self, run, summary): pass\n"
    )
    chosen = ["--out", str(out), "--only", "reinforce-", "--seeds", "0"]
    assert sweep(plan(), *chosen, "--reporter", str(tmp_path / "own.py:Own")) == 0
    [run] = [path for path in out.iterdir() if path.is_dir()]
    assert (run / "own").read_text() == "1\n2\n"
    assert not list(run.glob(FILES))
    assert sweep(plan(), *chosen, "--tensorboard") == 0
    assert events(run) == measured(run)
    assert "1 run, 1 to do" in capfd.readouterr().out
    assert sweep(plan(), *chosen, "--tensorboard") == 0
    assert "1 run, 0 to do" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("name", "message", "code"),
    [
        ("wandb", "it has to be FILE.py:CLASS", 2),
        ("nowhere.py:Own", "no file", 1),
        ("own.py:Ow", "did you mean Own?", 1),
        ("own.py:Half", "has no reporter 'Half': there is Own, Sour (it needs begin, epoch", 1),
        ("own.py:Sour", "cannot be made: ValueError: no key", 1),
        ("bad.py:Own", "line 1: NameError", 1),
    ],
)
@pytest.mark.parametrize("start", [["train", "bandit"], ["sweep", "quick"]])
def test_a_wrong_reporter_gets_one_line(tmp_path, monkeypatch, capfd, start, name, message, code):
    monkeypatch.chdir(tmp_path)
    Path("bad.py").write_text("nothing")
    Path("own.py").write_text(
        "from hnca.lab.training import Reporter\n"
        "class Half:\n    def begin(self, run, data): pass\n"
        "class Own(Half):\n    def epoch(self, run, entry): pass\n    end = epoch\n"
        "class Sour(Own):\n    def __init__(self): raise ValueError('no key')\n"
    )
    command(*start, "--reporter", name, code=code)
    said = capfd.readouterr().err
    assert said.startswith("error: ")
    assert said.count("\n") == 1
    assert message in said
    assert not Path("runs").exists()


@pytest.mark.parametrize("start", [["train", "bandit"], ["sweep", "quick"]])
def test_without_its_library_tensorboard_says_what_to_install(monkeypatch, capfd, start):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    command(*start, "--tensorboard", code=1)
    assert capfd.readouterr().err == (
        "error: --tensorboard needs it: pip install 'hnca[tensorboard]'\n"
    )


class FakeWandb:
    """Stands for the service: it keeps what it is told, by the id of the run."""

    def __init__(self):
        self.runs = {}

    def init(self, **about):
        run = self.runs.setdefault(about["id"], SimpleNamespace(about=about, logged={}, summary={}))
        run.step = max(run.logged, default=-1) + 1
        run.finish = lambda exit_code: setattr(run, "code", exit_code)
        run.log = lambda entry, step: self.take(run, entry, step)
        return run

    @staticmethod
    def take(run, entry, step):
        assert step not in run.logged
        run.logged[step] = dict(entry)


def test_weights_and_biases(tmp_path, stripes, monkeypatch, capsys):  # noqa: F811
    """The example, from the command line: a run that goes on is the same run there."""
    service = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", service)
    out = tmp_path / "run"
    settings = [*TRAIN, "--dataset", stripes, "--out", out]
    command(*settings, "--epochs", 1)
    told = ["--reporter", f"{EXAMPLE}:Wandb"]
    command(*settings, "--epochs", 2, *told)
    command(*settings, "--epochs", 3, *told)
    [there] = service.runs.values()
    assert (there.about["name"], there.about["config"]["units"]) == ("run", 4)
    entries = RunDirectory(out).read_metrics()
    assert [there.logged[epoch] for epoch in (1, 2, 3)] == entries
    assert there.summary == json.loads((out / "summary.json").read_text())["final"]
    assert there.code == 0
