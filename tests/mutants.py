"""Mutants: the source with one thing wrong, which some test should notice.

    python tests/mutants.py             # all of them, one at a time; exits with 1 if one survives
    python tests/mutants.py glorot      # those with this in their name

Each is a replacement in a copy of the source, and the tests that are run against it.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]


class Mutant(NamedTuple):
    """A replacement in a file, and who should notice."""

    name: str
    file: str
    right: str
    wrong: str
    tests: str


MUTANTS = [
    Mutant(
        "resampling stops at the children",
        "graph.py",
        "                changed.add(node.name)\n",
        "",
        "test_conformance.py -k drawing",
    ),
    Mutant(
        "baselines see what came of a node",
        "baselines.py",
        "hidden = {name, *self.graph.structure.descendants(name)}",
        "hidden = {name}",
        "test_baselines.py -k view",
    ),
    Mutant(
        "the baseline of a fresh sample has one component only",
        "baselines.py",
        "for each in drawn for part in components]",
        "for each in drawn for part in components[:1]]",
        "test_baselines.py -k mean",
    ),
]


def survives(mutant: Mutant, copy: Path) -> bool:
    """Whether all tests pass with the mutation."""
    path = copy / "src" / "hnca" / mutant.file
    source = path.read_text()
    if source.count(mutant.right) != 1:
        raise SystemExit(f"{mutant.name}: not exactly once in {mutant.file}: {mutant.right!r}")
    path.write_text(source.replace(mutant.right, mutant.wrong))
    environment = os.environ | {"PYTHONPATH": str(copy / "src")}
    file, *selection = mutant.tests.split(" ", 1)
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "2", str(copy / "tests" / file)]
    chosen = ["-k", selection[0].removeprefix("-k ")] if selection else []
    done = subprocess.run(command + chosen, cwd=copy, env=environment, capture_output=True)
    path.write_text(source)
    if done.returncode not in (0, 1):  # nothing collected, or nothing imported
        raise SystemExit(f"{mutant.name}: its tests do not run:\n{done.stdout.decode()[-2000:]}")
    return done.returncode == 0


def main() -> None:
    """Lists the survivors."""
    wanted = [each for each in MUTANTS if all(word in each.name for word in sys.argv[1:])]
    survivors = []
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(directory) / "copy"
        ignored = shutil.ignore_patterns(".*", "docs", "__pycache__", "*.png")
        shutil.copytree(ROOT, copy, ignore=ignored)
        for mutant in wanted:
            alive = survives(mutant, copy)
            survivors += [mutant.name] * alive
            print(f"{'SURVIVED' if alive else 'noticed ':10}{mutant.name}", flush=True)
    print(f"{len(wanted)} mutants, {len(survivors)} survived")
    raise SystemExit(1 if survivors else 0)


if __name__ == "__main__":
    main()
