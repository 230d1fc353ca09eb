import os
import tempfile
from pathlib import Path

# Small programs, compiled by the hundred: what optimisation gains in running them is less than it
# costs. Before JAX starts. With HNCA_XLA_DEFAULT=1 they are compiled as they are for users.
if os.environ.get("HNCA_XLA_DEFAULT") != "1":
    os.environ["XLA_FLAGS"] = " ".join(
        [
            os.environ.get("XLA_FLAGS", ""),
            "--xla_backend_optimization_level=0",
            "--xla_llvm_disable_expensive_passes=true",
            "--xla_cpu_parallel_codegen_split_count=1",
            "--xla_cpu_use_fusion_emitters=false",
        ]
    )

# What one worker has compiled, the others need not, nor the processes that they start. A new
# directory for each session.
if "HNCA_TEST_CACHE" not in os.environ:
    _cache = tempfile.TemporaryDirectory(prefix="hnca-tests-")
    os.environ["HNCA_TEST_CACHE"] = _cache.name
os.environ["JAX_COMPILATION_CACHE_DIR"] = os.environ["HNCA_TEST_CACHE"]
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"

import jax
import pytest

jax.config.update("jax_enable_x64", True)  # exact claims are checked to float64 rounding
jax.config.update("jax_numpy_rank_promotion", "raise")

# Which of them take long, beside those that say so in place.
SLOW = {
    line
    for line in Path(__file__).with_name("slow.txt").read_text().splitlines()
    if line and not line.startswith("#")
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks those that slow.txt lists."""
    for item in items:
        if item.nodeid.removeprefix("tests/") in SLOW:
            item.add_marker(pytest.mark.slow)
