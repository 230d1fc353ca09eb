"""The core stands without the lab: in a process where the lab's packages cannot be imported."""

import subprocess
import sys

import pytest

# A finder that knows nothing of the packages of the lab, and a distribution that lacks one.
ALONE = """
import importlib.metadata, sys
class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in LAB:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
LAB = {"filelock", "jinja2", "joblib", "matplotlib", "platformdirs", "pooch", "rich"}
sys.meta_path.insert(0, Nothing())
"""
USE = """
import jax, jax.numpy as jnp, hnca
layer = hnca.Bernoulli(3, 2, key=jax.random.key(0))
graph = hnca.Graph([hnca.Node("h", layer, ["x"])], [hnca.Reward("r", ["h"])])
sample = graph.sample(jax.random.key(1), x=jnp.ones((4, 3)))
estimator = hnca.make_estimator("hnca+baseline")
estimator(graph, sample, estimator.init(graph), reward=jnp.ones(4))
print(sorted(name for name in sys.modules if name.startswith("hnca.lab")), hnca.World is not None,
      hnca.multi_sample_bound is not None)
"""


def run(code):
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_core_needs_nothing_of_the_lab():
    done = run(ALONE + USE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[] True True"


def test_the_command_says_what_to_install():
    """As where `pip install hnca` was all."""
    missing = """
there = importlib.metadata.distribution
def without(name):
    if name in LAB:
        raise importlib.metadata.PackageNotFoundError(name)
    return there(name)
importlib.metadata.distribution = without
from hnca.__main__ import main
main()
"""
    done = run(ALONE + missing)
    assert done.returncode == 1
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    assert line.startswith("error: the command line needs filelock, ")
    assert "pip install 'hnca[lab]'" in line


@pytest.mark.parametrize("marker", ["py.typed"])
def test_types_are_for_everyone(marker):
    from importlib.resources import files

    assert (files("hnca") / marker).is_file()
