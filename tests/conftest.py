import os
import tempfile

# Small programs, compiled by the hundred: what optimisation gains in running them is less than it
# costs. Before JAX starts.
os.environ["XLA_FLAGS"] = " ".join(
    [
        os.environ.get("XLA_FLAGS", ""),
        "--xla_backend_optimization_level=0",
        "--xla_llvm_disable_expensive_passes=true",
        "--xla_cpu_parallel_codegen_split_count=1",
        "--xla_cpu_use_fusion_emitters=false",
    ]
)

# What one worker has compiled, the others need not. A new directory for each session.
if "HNCA_TEST_CACHE" not in os.environ:
    _cache = tempfile.TemporaryDirectory(prefix="hnca-tests-")
    os.environ["HNCA_TEST_CACHE"] = _cache.name

import jax

jax.config.update("jax_compilation_cache_dir", os.environ["HNCA_TEST_CACHE"])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
jax.config.update("jax_enable_x64", True)  # exact claims are checked to float64 rounding
jax.config.update("jax_numpy_rank_promotion", "raise")
