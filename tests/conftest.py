import jax

jax.config.update("jax_enable_x64", True)  # exact claims are checked to float64 rounding
jax.config.update("jax_numpy_rank_promotion", "raise")
