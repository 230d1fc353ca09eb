"""What a run is spread over: devices, and processes on one machine or on many."""

import os
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..errors import UsageError, UserError

if TYPE_CHECKING:
    from ..training import Devices


@dataclass(frozen=True)
class Hardware:
    """What to compute on; no matter to what comes out, but for rounding."""

    devices: int = 1
    """Devices that share each batch; of each process, if there are several. A CPU is divided into
    as many as are asked for, up to its cores."""
    coordinator: str | None = None
    """HOST:PORT of process 0, to train in several processes: give each of them the same command,
    but for --process. Only process 0 uses --out. With `auto`, Slurm, MPI or a TPU is asked. This
    and the next two may be in JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES and JAX_PROCESS_ID."""
    processes: int | None = None
    """How many processes there are."""
    process: int | None = None
    """Which of them this is, from 0."""

    def claim(self) -> "Devices":
        """Meets the other processes, if there are any, and takes the devices. Before JAX does
        anything else: afterwards, a CPU cannot be divided."""
        from ..training import Devices

        if self.devices < 1:
            raise UsageError(f"--devices must be 1 or more, not {self.devices}")
        self._divide_cpu()
        self._with_environment()._join()
        return Devices.first(self.devices)

    def _divide_cpu(self) -> None:
        import jax

        if "xla_force_host_platform_device_count" not in os.environ.get("XLA_FLAGS", ""):
            with suppress(RuntimeError):  # JAX is at work already, and has what it has
                # No more than it has cores: what is asked for beyond that is refused, not made.
                devices = min(self.devices, os.cpu_count() or 1)
                jax.config.update("jax_num_cpu_devices", devices)

    def _with_environment(self) -> "Hardware":
        """What the flags leave open, from the environment."""
        coordinator = self.coordinator or os.environ.get("JAX_COORDINATOR_ADDRESS")
        processes = _number("JAX_NUM_PROCESSES") if self.processes is None else self.processes
        process = _number("JAX_PROCESS_ID") if self.process is None else self.process
        return replace(self, coordinator=coordinator, processes=processes, process=process)

    def _join(self) -> None:
        if self.coordinator is None:
            if self.processes is not None or self.process is not None:
                raise UsageError("several processes need a --coordinator HOST:PORT, or `auto`")
            return
        automatic = self.coordinator == "auto"
        if not automatic and not re.fullmatch(r".+:\d+", self.coordinator):
            raise UsageError(f"--coordinator must be HOST:PORT or auto, not {self.coordinator}")
        from ..training import hosts

        print(f"waiting for all processes to meet at {self.coordinator}", flush=True)
        hosts.join(None if automatic else self.coordinator, self.processes, self.process)


def _number(variable: str) -> int | None:
    value = os.environ.get(variable)
    if value is not None and not value.isdecimal():
        raise UserError(f"{variable} must be a number, not {value}")
    return None if value is None else int(value)
