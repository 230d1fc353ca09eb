"""Compiles the native kernel when a wheel is built or hnca is installed; does without where it
cannot. What a wheel holds then depends on the machine, and its name says so."""

import hashlib
import importlib.util
import os
import shlex
import shutil
import subprocess
import sysconfig
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = Path("src/hnca/kernels/native")
FLAGS = "-std=c++17 -O3 -ffp-contract=fast -fPIC -shared -pthread"


def compiler() -> list[str] | None:
    """That of the environment, or the first one on the path."""
    if "CXX" in os.environ:
        command = shlex.split(os.environ["CXX"])
        return command if command and shutil.which(command[0]) else None
    return next(([name] for name in ("c++", "g++", "clang++") if shutil.which(name)), None)


class NativeKernel(BuildHookInterface):
    """Called by hatchling."""

    def dependencies(self) -> list[str]:
        """jaxlib has the headers of XLA's foreign function interface."""
        return ["jaxlib>=0.10"] if self.target_name == "wheel" and compiler() else []

    def initialize(self, version: str, build_data: dict) -> None:
        """Before the files of the wheel are gathered."""
        if self.target_name != "wheel":
            return
        library = Path(self.root) / FOLDER / "libhnca.kernel"
        trouble = self._compile(library.with_name("bernoulli.cc"), library)
        if trouble:
            library.unlink(missing_ok=True)
            self.app.display_warning(f"hnca: no native kernel, pure JAX instead: {trouble}")
            return
        build_data["artifacts"].append(f"/{FOLDER}/{library.name}")
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"

    def _compile(self, source: Path, library: Path) -> str:
        """Why it could not be done, if so."""
        command, jaxlib = compiler(), importlib.util.find_spec("jaxlib")
        if command is None:
            return "there is no C++ compiler"
        if jaxlib is None or jaxlib.origin is None:
            return "there is no jaxlib to build with"
        headers = Path(jaxlib.origin).with_name("include")
        version = hashlib.sha256(source.read_bytes()).hexdigest()
        new = library.with_suffix(f".{os.getpid()}")
        command += [*FLAGS.split(), f'-DHNCA_SOURCE="{version}"', "-isystem", str(headers)]
        try:
            done = subprocess.run(
                [*command, str(source), "-o", str(new)], capture_output=True, text=True
            )
            if done.returncode == 0:
                new.replace(library)  # one that is in use stays whole
            return "" if done.returncode == 0 else f"{command[0]} failed:\n{done.stderr.strip()}"
        except OSError as error:
            return str(error)
        finally:
            new.unlink(missing_ok=True)
