"""`hnca info`: what one pastes into a bug report. A kernel is for float32 tables on a CPU."""

import os
import platform
from dataclasses import dataclass
from importlib.metadata import version

from .usage import parse


@dataclass(frozen=True)
class Info:
    """Print versions, devices, the kernel in use and why, and where data and caches are."""


def main(arguments: list[str]) -> None:
    """Prints a few lines."""
    parse(Info, "hnca info", arguments)
    import jax

    from ...kernels import native
    from ..data.cache import cache_directory
    from ..training import keep_compiled
    from ..training.run import PACKAGES

    keep_compiled()
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    devices = ", ".join(f"{device.platform} {device.id}" for device in jax.devices())
    kernel = native.kernel()
    facts = {
        "hnca": version("hnca"),
        "python": f"{platform.python_version()} on {machine}",
        "packages": ", ".join(f"{name} {version(name)}" for name in PACKAGES[1:]),
        "devices": devices,
        "kernel": f"{kernel.name} ({kernel.why})",
        "data": os.environ.get("HNCA_DATA_DIR")
        or f"{cache_directory()} (HNCA_DATA_DIR is not set)",
        "cache": str(cache_directory()),
        "programs": str(jax.config.jax_compilation_cache_dir),  # pyright: ignore[reportAttributeAccessIssue]
    }
    for name, fact in facts.items():
        print(f"{name:10}{fact}")
