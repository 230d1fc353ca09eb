"""Faults: runs that are killed, swapped and damaged at random, and what hnca makes of them.

    python tests/faults.py              # 200 trials; exits with 1 if one fails
    python tests/faults.py 20 7         # 20 trials, by another seed

Whatever befalls a run, the same command again ends in the bits of a run that nothing befell, or it
is refused in one line and nothing is touched; what is evaluated or reported is right or is refused.
"""

import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

PLACE = Path(tempfile.mkdtemp(prefix="hnca-faults-"))
# The same bits in this process as in those that are killed, and programs that compile fast.
os.environ.pop("JAX_COMPILATION_CACHE_DIR", None)
os.environ |= {
    "HNCA_CACHE_DIR": str(PLACE / "cache"),
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    "PJRT_NPROC": "1",
    "XLA_FLAGS": "--xla_backend_optimization_level=0",
}

import numpy as np  # noqa: E402

from hnca.lab.cli import main  # noqa: E402
from hnca.lab.report import find_runs, read_runs  # noqa: E402
from hnca.lab.report.record import RunRecord  # noqa: E402
from hnca.lab.training.directory import FREE  # noqa: E402
from tiny_data import put  # noqa: E402

EPOCHS, HALF = 12, 5
SETTINGS = {"layers": 1, "units": 3, "batch_size": 1, "estimator": "reinforce"}
FLAGS = [f"--{name.replace('_', '-')}={value}" for name, value in SETTINGS.items()]
FLAGS += ["--dataset", str(PLACE / "data")]
WHOLE, BEGUN, OTHER = PLACE / "whole", PLACE / "begun", PLACE / "other"  # other: of another seed
SECONDS = 60  # until a process is given up


class Said(NamedTuple):
    """What came of a command."""

    code: int
    out: str
    err: str

    @property
    def refused(self) -> bool:
        """In one line, which may follow warnings."""
        lines = self.err.splitlines()
        errors = [line for line in lines if not line.startswith("warning: ")]
        one_line = len(errors) == 1 and errors[0].startswith("error: ")
        return self.code in (1, 2) and one_line and "unexpected" not in errors[0]


class Failure(Exception):
    """A trial that did not end as it should."""


def hnca(*arguments: object) -> Said:
    """A command, in this process."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main([str(each) for each in arguments])
        except SystemExit as leaving:
            code = leaving.code
    return Said(int(code or 0), out.getvalue(), err.getvalue())


def training(path: Path, epochs: int = EPOCHS, seed: int = 0) -> list[str]:
    return ["train", "bandit", *FLAGS, f"--epochs={epochs}", f"--seed={seed}", "--out", str(path)]


def outcome(path: Path) -> tuple:
    """What must not depend on what befell a run: metrics but for the time, and the last arrays."""
    entries = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    metrics = [
        {name: value for name, value in each.items() if name != "seconds"} for each in entries
    ]
    newest = max((path / "checkpoint").glob("epoch-*"))
    with np.load(newest / "arrays.npz") as arrays:
        return metrics, {name: array.tobytes() for name, array in arrays.items()}


def contents(path: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}


def check(holds: bool, what: str, said: object = "") -> None:
    if not holds:
        raise Failure(f"{what}: {said}")


def check_leftovers(path: Path) -> None:
    left = list(path.rglob("*.aside"))
    check(not left, "left behind", left)


def check_goes_on(path: Path) -> None:
    """The same command again ends in the right bits."""
    said = hnca(*training(path))
    check(said.code == 0, "did not go on", said)
    check(outcome(path) == outcome(WHOLE), "other bits", said)


# Damage, of any file


def flip(chance: random.Random, file: Path) -> None:
    content = bytearray(file.read_bytes())
    place = chance.randrange(len(content))
    content[place] ^= 1 << chance.randrange(8)
    file.write_bytes(content)


def truncate(chance: random.Random, file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: chance.randrange(len(content))])


def change_a_digit(chance: random.Random, file: Path) -> None:
    text = file.read_text()
    place = chance.choice([i for i, letter in enumerate(text) if letter.isdigit()])
    digit = chance.choice([digit for digit in "0123456789" if digit != text[place]])
    file.write_text(text[:place] + digit + text[place + 1 :])


def fill(chance: random.Random, file: Path) -> None:
    file.write_bytes(chance.choice([b"", b"null\n", b"[]\n", b"{}\n", b"\xff\x00" * 20]))


def remove(chance: random.Random, file: Path) -> None:
    file.unlink()


def damage_a_file(chance: random.Random, path: Path) -> str:
    names = [
        "config.json",
        "metrics.jsonl",
        "checkpoint/*/manifest.json",
        "checkpoint/*/arrays.npz",
    ]
    file = chance.choice(sorted(path.glob(chance.choice(names))))
    hurts = [flip, truncate, fill, remove] + [change_a_digit] * (file.suffix != ".npz")
    hurt = chance.choice(hurts)
    hurt(chance, file)
    return f"{hurt.__name__} {file.relative_to(path)}"


# Files and directories that belong elsewhere


def swap_checkpoints(chance: random.Random, path: Path) -> None:
    one, two = sorted((path / "checkpoint").glob("epoch-*"))
    one.rename(path / "aside")
    two.rename(one)
    (path / "aside").rename(two)


def copy_a_checkpoint(chance: random.Random, path: Path) -> None:
    checkpoints = sorted((path / "checkpoint").glob("epoch-*"))
    one, two = chance.sample(checkpoints, 2)
    shutil.rmtree(two)
    shutil.copytree(one, two)


def take_all_checkpoints(chance: random.Random, path: Path) -> None:
    shutil.rmtree(path / "checkpoint")
    shutil.copytree(chance.choice([OTHER, WHOLE, BEGUN]) / "checkpoint", path / "checkpoint")


def take_one_checkpoint(chance: random.Random, path: Path) -> None:
    theirs = chance.choice(sorted((OTHER / "checkpoint").glob("epoch-*")))
    mine = chance.choice(sorted((path / "checkpoint").glob("epoch-*")))
    shutil.rmtree(mine)
    shutil.copytree(theirs, mine)


def take_a_file(chance: random.Random, path: Path) -> None:
    name = chance.choice(["config.json", "metrics.jsonl", "summary.json"])
    shutil.copy(OTHER / name, path / name)


def swap_lines(chance: random.Random, path: Path) -> None:
    lines = (path / "metrics.jsonl").read_text().splitlines(keepends=True)
    one, two = chance.sample(range(len(lines)), 2)
    lines[one], lines[two] = lines[two], lines[one]
    (path / "metrics.jsonl").write_text("".join(lines))


SWAPS = [
    swap_checkpoints,
    copy_a_checkpoint,
    take_all_checkpoints,
    take_one_checkpoint,
    take_a_file,
    swap_lines,
]


def swap_something(chance: random.Random, path: Path) -> str:
    swap = chance.choice(SWAPS)
    swap(chance, path)
    return swap.__name__


# Trials: each gets an empty directory, and tells what it did


def train_after(befall: Callable[[random.Random, Path], str]) -> Callable:
    def trial(chance: random.Random, path: Path) -> None:
        shutil.copytree(chance.choice([WHOLE, BEGUN]), path, dirs_exist_ok=True)
        what = befall(chance, path)
        before = contents(path)
        said = hnca(*training(path))
        check(said.code == 0 or said.refused, f"after {what}, neither done nor refused", said)
        if said.code == 0:
            check(outcome(path) == outcome(WHOLE), f"after {what}, other bits", said)
        else:
            check(contents(path) == before, f"after {what}, refused but touched", said)
        check_leftovers(path)

    return trial


def train_with_a_bad_summary(chance: random.Random, path: Path) -> None:
    shutil.copytree(WHOLE, path, dirs_exist_ok=True)
    chance.choice([truncate, fill])(chance, path / "summary.json")
    said = hnca(*training(path, EPOCHS + 1))
    lines = (path / "metrics.jsonl").read_text().count("\n")
    check(said.code == 0 or (said.refused and lines == EPOCHS), "trained in vain", said)


def evaluate_after(befall: Callable[[random.Random, Path], str]) -> Callable:
    right = lambda said: [line for line in said.out.splitlines() if line.startswith("  test_")]

    def trial(chance: random.Random, path: Path) -> None:
        shutil.copytree(WHOLE, path, dirs_exist_ok=True)
        what = befall(chance, path)
        said = hnca("evaluate", path)
        older = "after 12 epochs" not in said.out  # one that is passed over is told of
        if said.code == 0 and not (older and "skipped" in said.err):
            check(right(said) == right(hnca("evaluate", WHOLE)), f"after {what}, wrong", said)
        check(said.code == 0 or said.refused, f"after {what}, neither done nor refused", said)
        check_leftovers(path)

    return trial


def reported(run: RunRecord) -> tuple:
    """What a report tells of a run: what was asked for, but for what is free, and its curves."""
    asked = {name: value for name, value in run.asked.settings.items() if name not in FREE}
    return asked, {name: curve.values.tolist() for name, curve in run.curves.items()}


def report_after(befall: Callable[[random.Random, Path], str]) -> Callable:
    def trial(chance: random.Random, path: Path) -> None:
        shutil.copytree(WHOLE, path / "run")
        what = befall(chance, path / "run")
        [right] = read_runs([WHOLE]).runs
        for run in read_runs(find_runs([path])).runs:
            check(reported(run) == reported(right) or not run.complete, f"after {what}, wrong")

    return trial


def train_on_a_full_disk(chance: random.Random, path: Path) -> None:
    shutil.copytree(BEGUN, path, dirs_exist_ok=True)
    left, fsync = chance.randrange(20), os.fsync

    def full(descriptor: int) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(descriptor)

    with patch("os.fsync", full):
        said = hnca(*training(path))
    check(said.refused or left >= 0, "a full disk", said)
    check_leftovers(path)
    check_goes_on(path)


def train_with_a_cut_program(chance: random.Random, path: Path) -> None:
    shutil.copytree(BEGUN, path, dirs_exist_ok=True)
    file = chance.choice(sorted((PLACE / "cache" / "compiled").glob("jit__run-*-cache")))
    truncate(chance, file)
    cut = file.read_bytes()
    said = hnca(*training(path))
    check(said.code == 0 and outcome(path) == outcome(WHOLE), "with a cut program", said)
    named = said.err.count(str(file))
    check(named == 1 or (named == 0 and file.read_bytes() == cut), "not named once", said)
    hnca(*training(path, EPOCHS + 1))  # which makes it anew
    again = hnca(*training(path, EPOCHS + 2))
    check(not again.err, "warned again", again)


def start(*arguments: object) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "hnca", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def wait_for(process: subprocess.Popen, ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not ready() and process.poll() is None:
        check(time.monotonic() < deadline, "did not begin")
        time.sleep(0.001)


def send_some(chance: random.Random, process: subprocess.Popen) -> list[signal.Signals]:
    kinds = [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP]
    signals = chance.choice([[kind] for kind in kinds] + [chance.choices(kinds[1:3], k=2)])
    for each in signals:
        process.send_signal(each)
        time.sleep(chance.choice([0, 0.01]))
    return signals


def must_speak(signals: list[signal.Signals]) -> bool:
    """Whether one who gets these can say something before it ends."""
    return {signal.SIGKILL, signal.SIGHUP}.isdisjoint(signals)


def kill_a_run(chance: random.Random, path: Path) -> None:
    shutil.copytree(chance.choice([BEGUN, PLACE / "nothing"]), path, dirs_exist_ok=True)
    (path / ".lock").unlink(missing_ok=True)
    process, metrics = start(*training(path)), path / "metrics.jsonl"
    lines = lambda: metrics.read_text().count("\n") if metrics.exists() else 0
    moment = chance.randrange(EPOCHS)
    wait_for(process, lambda: (path / ".lock").exists() and lines() >= moment)
    time.sleep(chance.random() * 0.02)
    signals = send_some(chance, process)
    said = process.communicate(timeout=SECONDS)[0]
    if must_speak(signals) and lines() < EPOCHS:
        check("Go on with:" in said, f"{signals}, died without a word", said)
    check_goes_on(path)


def descendants(pid: int) -> set[int]:
    found: dict[int, int] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            found[int(status.parent.name)] = int(status.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    below = {child for child, parent in found.items() if parent == pid}
    return below.union(*map(descendants, below))


def is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def kill_a_sweep(chance: random.Random, path: Path) -> None:
    """Its workers end with it, and its run goes on."""
    settings = [f"{name} = {json.dumps(value)}" for name, value in SETTINGS.items()]
    settings += [f"dataset = {json.dumps(str(PLACE / 'data'))}", "epochs = 100000"]
    plan = path / "plan.toml"
    plan.write_text("\n".join(['[[grid]]\ntask = "bandit"', *settings]))
    process = start("sweep", plan, "--out", path / "out", "--workers", 1)
    measured = lambda: bool(list(path.glob("out/*/metrics.jsonl")))
    ready = chance.choice([measured, measured, lambda: len(descendants(process.pid)) > 1])
    wait_for(process, ready)
    workers = descendants(process.pid)
    signals = send_some(chance, process)
    said = process.communicate(timeout=SECONDS)[0]
    if must_speak(signals):
        check("Go on with:" in said, f"{signals}, died without a word", said)
    deadline = time.monotonic() + SECONDS
    while any(map(is_there, workers)):
        check(time.monotonic() < deadline, f"{signals}, left workers")
        time.sleep(0.05)
    for metrics in path.glob("out/*/metrics.jsonl"):
        epochs = metrics.read_text().count("\n")
        said = hnca(*training(metrics.parent, epochs + 1))
        check(said.code == 0, "did not go on", said)


TRIALS = {  # and how often each, of a hundred
    "train, damaged": (train_after(damage_a_file), 24),
    "train, swapped": (train_after(swap_something), 24),
    "train, bad summary": (train_with_a_bad_summary, 3),
    "train, full disk": (train_on_a_full_disk, 5),
    "train, cut program": (train_with_a_cut_program, 4),
    "train, killed": (kill_a_run, 12),
    "sweep, killed": (kill_a_sweep, 4),
    "evaluate, damaged": (evaluate_after(damage_a_file), 6),
    "evaluate, swapped": (evaluate_after(swap_something), 6),
    "report, damaged": (report_after(damage_a_file), 6),
    "report, swapped": (report_after(swap_something), 6),
}


def prepare() -> None:
    """The data, and runs to damage."""
    put(PLACE / "data")
    (PLACE / "nothing").mkdir()
    for path, epochs, seed in ((WHOLE, EPOCHS, 0), (BEGUN, HALF, 0), (OTHER, EPOCHS, 7)):
        said = hnca(*training(path, epochs, seed))
        check(said.code == 0, "cannot begin", said)


def attempt(number: int, name: str, chance: random.Random) -> bool:
    """Whether it went well."""
    path = PLACE / f"trial-{number}"
    path.mkdir()
    try:
        TRIALS[name][0](chance, path)
    except Exception as failure:
        known = isinstance(failure, Failure)
        print(
            f"FAILED {number} ({name}): {failure if known else traceback.format_exc()}", flush=True
        )
        return False
    finally:
        shutil.rmtree(path)
    return True


def run(trials: int, seed: int) -> int:
    """All trials; returns how many have failed."""
    prepare()
    chance, done, failed = random.Random(seed), Counter(), Counter()
    weights = [often for _, often in TRIALS.values()]
    for number, name in enumerate(chance.choices(list(TRIALS), weights, k=trials)):
        done[name] += 1
        failed[name] += not attempt(number, name, random.Random(f"{seed} {number}"))
    for name, count in sorted(done.items()):
        print(f"{name:20}{count:4} trials {failed[name]:4} failures")
    print(f"{trials} trials, {failed.total()} failures")
    return failed.total()


if __name__ == "__main__":
    given = list(map(int, sys.argv[1:]))
    try:
        failures = run(*(given + [200, 13][len(given) :]))
    finally:
        shutil.rmtree(PLACE)
    raise SystemExit(1 if failures else 0)
