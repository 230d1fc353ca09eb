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
    tests: str  # a file, and a word in the names of its tests


MUTANTS = [
    Mutant(
        "resampling stops at the children",
        "graph.py",
        "                changed.add(node.name)\n",
        "",
        "test_graph.py drawn_anew",
    ),
    Mutant(
        "straight-through is three times too large",
        "estimators/relaxed.py",
        "jax.grad(objective)(none)",
        "jax.grad(lambda offsets: 3 * objective(offsets))(none)",
        "test_conformance.py all_is_linear",
    ),
    Mutant(
        "initial weights fill less than Glorot's range",
        "units.py",
        "math.sqrt(6 / (inputs + outputs))",
        "math.sqrt(1 / (inputs + outputs))",
        "test_graph.py glorot",
    ),
    Mutant(
        "standard errors of the report divide by n",
        "lab/report/groups.py",
        "ddof=1",
        "ddof=0",
        "test_report.py by_hand",
    ),
    Mutant(
        "standard errors of a bound divide by n",
        "lab/training/evaluation.py",
        "ddof=1",
        "ddof=0",
        "test_report.py by_hand",
    ),
    Mutant(
        "a moving average sees the signal before it is used",
        "estimators/hnca.py",
        "self.baseline.value(own, view, components)",
        "self.baseline.value(self.baseline.update(own, view, signal), view, components)",
        "test_unbiased.py own_call",
    ),
    Mutant(
        "hindsight asks one child only",
        "estimators/hnca.py",
        "for child in route.children]",
        "for child in route.children[:1]]",
        "test_unbiased.py diamond",
    ),
    Mutant(
        "routes of like names share a baseline",
        "estimators/hnca.py",
        "if plain else json.dumps(self.children)",
        "",
        "test_credit.py whatever_the_names",
    ),
    Mutant(
        "draws in the precision of the logits",
        "units.py",
        "return array.astype(jnp.promote_types(array.dtype, jnp.float32))",
        "return array",
        "test_extremes.py draws",
    ),
    Mutant(
        "a NaN logit is lost in a product's exponent",
        "kernels/blocks.py",
        "return jnp.where(jnp.isnan(logits), logits, values)",
        "return values",
        "test_kernels.py nan_logit",
    ),
    Mutant(
        "tables by reduced products on accelerators",
        "kernels/blocks.py",
        "EXACT = jax.lax.Precision.HIGHEST",
        "EXACT = jax.lax.Precision.DEFAULT",
        "test_kernels.py highest",
    ),
    Mutant(
        "the tanh form goes on where it has lost its digits",
        "kernels/bernoulli.py",
        "TANH_LIMIT = 4.0",
        "TANH_LIMIT = 40.0",
        "test_kernels.py bernoulli_flip",
    ),
    Mutant(
        "the gradient variance forgets the mean",
        "credit.py",
        "jnp.sum(squares) / len(x) - square_of_mean",
        "jnp.sum(squares) / len(x)",
        "test_credit.py variance",
    ),
    Mutant(
        "leave-one-out leaves none out",
        "estimators/leave_one_out.py",
        "(signal - (whole - signal) / (count - 1)) / count",
        "(signal - whole / count) / count",
        "test_credit.py leave_one_out",
    ),
    Mutant(
        "a label that is no category scores another",
        "units.py",
        "return jnp.where(possible, choice, self.categories)",
        "return choice",
        "test_errors.py impossible_label",
    ),
    Mutant(
        "baselines see what came of a node",
        "baselines.py",
        "hidden = {name, *self.graph.structure.descendants(name)}",
        "hidden = {name}",
        "test_baselines.py view",
    ),
    Mutant(
        "the baseline of a fresh sample has one component only",
        "baselines.py",
        "for each in drawn for part in components]",
        "for each in drawn for part in components[:1]]",
        "test_baselines.py mean",
    ),
]


def passes(copy: Path, file: str, words: list[str]) -> bool:
    """Whether the tests of a file with one of these words pass with the source of the copy."""
    cache = copy.parent / "compiled"  # what is not mutated need not be compiled again
    environment = {"PYTHONPATH": str(copy / "src"), "HNCA_TEST_CACHE": str(cache)}
    chosen = [f"tests/{file}", "-k", " or ".join(words)]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", *chosen]
    done = subprocess.run(command, cwd=copy, env=os.environ | environment, capture_output=True)
    if done.returncode not in (0, 1):  # nothing collected, or nothing imported
        raise SystemExit(f"{file} {words}: do not run:\n{done.stdout.decode()[-2000:]}")
    return done.returncode == 0


def check_unmutated(mutants: list[Mutant], copy: Path) -> None:
    """Tests that fail anyway would notice everything."""
    words: dict[str, list[str]] = {}
    for mutant in mutants:
        file, word = mutant.tests.split()
        words.setdefault(file, []).append(word)
    for file, chosen in words.items():
        if not passes(copy, file, chosen):
            raise SystemExit(f"{file} fails without any mutation")


def survives(mutant: Mutant, copy: Path) -> bool:
    """Whether its tests pass with the mutation."""
    path = copy / "src" / "hnca" / mutant.file
    source = path.read_text()
    if source.count(mutant.right) != 1:
        raise SystemExit(f"{mutant.name}: not exactly once in {mutant.file}: {mutant.right!r}")
    path.write_text(source.replace(mutant.right, mutant.wrong))
    file, word = mutant.tests.split()
    alive = passes(copy, file, [word])
    path.write_text(source)
    return alive


def main() -> None:
    """Lists the survivors."""
    wanted = [each for each in MUTANTS if all(word in each.name for word in sys.argv[1:])]
    survivors = []
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(directory) / "copy"
        ignored = shutil.ignore_patterns(".*", "docs", "__pycache__", "*.png")
        shutil.copytree(ROOT, copy, ignore=ignored)
        check_unmutated(wanted, copy)
        for mutant in wanted:
            alive = survives(mutant, copy)
            survivors += [mutant.name] * alive
            print(f"{'SURVIVED' if alive else 'noticed ':10}{mutant.name}", flush=True)
    print(f"{len(wanted)} mutants, {len(survivors)} survived")
    raise SystemExit(1 if survivors else 0)


if __name__ == "__main__":
    main()
