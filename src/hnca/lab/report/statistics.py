"""Means over seeds, and how far to trust them."""

from typing import Any, NamedTuple

import numpy as np

CONFIDENCE = 0.95


class Interval(NamedTuple):
    """A mean, and half the width of its 95% confidence interval: none of a single value."""

    mean: float
    half: float | None
    n: int

    def overlaps(self, other: "Interval") -> bool:
        """Whether the two have a value in common."""
        return abs(self.mean - other.mean) <= (self.half or 0) + (other.half or 0)

    def shown(self, decimals: int) -> str:
        """For people."""
        mean = f"{self.mean:.{decimals}f}"
        return mean if self.half is None else f"{mean} ± {self.half:.{decimals}f}"


def interval(values: list[float]) -> Interval:
    """Of independent values, by Student's t."""
    mean, half = band(np.array(values, dtype=float))
    return Interval(float(mean), None if half is None else float(half), len(values))


def band(values: np.ndarray) -> tuple[Any, Any]:
    """The mean over the first axis, and half the width of its confidence interval, if any."""
    n = len(values)
    if n == 1:
        return values[0], None
    from scipy.special import stdtrit  # the quantile function of Student's t

    t = stdtrit(n - 1, (1 + CONFIDENCE) / 2)
    return values.mean(axis=0), t * values.std(axis=0, ddof=1) / np.sqrt(n)
