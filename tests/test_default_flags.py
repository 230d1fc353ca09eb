"""Numbers that depend on it, compiled as they are for users: the other tests compile for speed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FILES = ["test_kernels.py", "test_extremes.py", "test_draws.py", "test_softplus.py"]


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES)
def test_with_the_default_flags_of_xla(file):
    inherited = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", HERE / file]
    result = subprocess.run(
        command,
        env=inherited | {"HNCA_XLA_DEFAULT": "1"},
        cwd=HERE.parent,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert " passed" in result.stdout
