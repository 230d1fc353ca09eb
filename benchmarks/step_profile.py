"""Where the time of a step of `hnca` goes beyond backpropagation: what it would cost with tables
for nothing, and what its tables cost alone.

    python benchmarks/step_profile.py

Alternating runs in one process, as in step_time.py. "Without tables" has zeros in their place; what
it costs beyond backpropagation is sampling and the credit itself.
"""

from rich.console import Console
from rich.table import Table
from step_time import (
    BATCH,
    ESTIMATORS,
    PIXELS,
    STEPS,
    UNITS,
    YARDSTICK,
    kernel_contenders,
    vae_contenders,
)
from textbook import HNCAWith, no_flip
from timing import alternate

from hnca.kernels import native

ROUNDS = 30
FREE = "hnca without tables"
METHODS = {"hnca": ESTIMATORS["hnca"], FREE: HNCAWith(no_flip)}


def main() -> None:
    """Prints both tables."""
    if not native.kernel().is_native:
        raise SystemExit(f"this is about the native kernel: {native.kernel().why}")
    table = Table("network", FREE, "hnca", "tables, ms", title=f"A step, in {YARDSTICK}s")
    for depth in (1, 2, 3):
        timings = alternate(vae_contenders([UNITS] * depth, METHODS), ROUNDS, STEPS)
        ratios = [f"{timings.ratio(name, YARDSTICK):.2f}" for name in (FREE, "hnca")]
        tables = timings.median("hnca") - timings.median(FREE)
        table.add_row(f"vae-{depth}", *ratios, f"{tables:.2f}")
    Console().print(table)
    rates = Table("layer", "kernel", "ms", "thousand million edges a second", title="Alone")
    for outputs in (PIXELS, UNITS):
        kernels = kernel_contenders(outputs, UNITS, STEPS)
        native_ones = {name: run for name, run in kernels.items() if "textbook" not in name}
        timings = alternate(native_ones, ROUNDS, STEPS)
        for name in native_ones:
            milliseconds = timings.median(name)
            rate = BATCH * outputs * UNITS / milliseconds / 1e6
            rates.add_row(f"{outputs} x {UNITS}", name, f"{milliseconds:.2f}", f"{rate:.1f}")
    Console().print(rates)


if __name__ == "__main__":
    main()
