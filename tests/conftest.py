import os

# Small programs, compiled by the hundred: what optimisation gains in running them is less than it
# costs. Before JAX starts.
os.environ["XLA_FLAGS"] = " ".join(
    [
        os.environ.get("XLA_FLAGS", ""),
        "--xla_backend_optimization_level=0",
        "--xla_llvm_disable_expensive_passes=true",
        "--xla_cpu_parallel_codegen_split_count=1",
    ]
)

import jax
import pytest

jax.config.update("jax_enable_x64", True)  # exact claims are checked to float64 rounding
jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture(autouse=True)
def forget_compiled_programs():
    """Nothing is compiled twice across tests, and thousands of kept programs slow everything."""
    yield
    jax.clear_caches()
