"""Programs that are compiled once on a machine."""

import jax

from ..data.cache import cache_directory


def keep_compiled() -> None:
    """From now on they are read from the user's cache, where they are there, unless the user has
    chosen another place for them."""
    if jax.config.jax_compilation_cache_dir is None:  # pyright: ignore[reportAttributeAccessIssue]
        jax.config.update("jax_compilation_cache_dir", str(cache_directory() / "compiled"))
