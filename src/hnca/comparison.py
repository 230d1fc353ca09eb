"""What a comparison of methods found: a table that prints well, records for a spreadsheet, and a
sentence of advice. How it is measured: see compare.py."""

import json
from textwrap import fill
from typing import Any, NamedTuple

UNLIKELY = 1e-5  # as a chance of one method in a comparison of two dozen
WORDS = """\
noise: variance of a parameter's gradient for a fixed example; variance: over examples too, as of
gradient_variance; ms: a step; MB: at its peak; worth: 1 / (noise x time), if unbiased, best 1"""
ROUNDING = 1e-4  # of gradients in single precision, as a share of the gradient


class Row(NamedTuple):
    """What was measured of a method. Of the yardstick, backpropagation, only what it costs."""

    name: str
    noise: dict[str, float]  # by layer, for a fixed example
    variance: dict[str, float]  # by layer, over the batch
    unbiased: bool | None = None  # as the method says
    objective: str | None = None  # what it climbs, where that is not the sum of the components
    bias: float | None = None  # |E G - gradient| / |gradient|, exact; None where not enumerated
    z: float | None = None  # the largest z-score of the mean, where it was not
    chance: float | None = None  # then how likely one so large is without bias, in any direction
    visible: float | None = None  # then the least bias along the gradient that would have been seen
    cosine: float | None = None  # with the gradient of the sum of the components
    mean_noise: float | None = None  # over the parameters of the nodes
    mean_variance: float | None = None
    samples: int = 0  # of the batch
    warm_up: int = 0  # samples before those, for baselines and control variates to learn from
    is_learning: bool = False  # there was time for few of them: its noise may yet fall
    milliseconds: float = 0.0  # a step: forward pass and gradient, without the optimiser
    relative_time: float = 1.0  # to backpropagation
    megabytes: float | None = None  # that the program needs at its peak, beside its inputs
    efficiency: float = (
        0.0  # 1 / (noise x time); 1 at the best; 0 for a method that is not unbiased
    )

    @property
    def is_seen_biased(self) -> bool:
        """Whether what was measured leaves no other explanation."""
        if self.bias is not None:
            return self.bias > ROUNDING
        return self.chance is not None and self.chance < UNLIKELY


class Comparison(NamedTuple):
    """Methods side by side. `print` shows a table, and what to make of it.

    >>> found = hnca.compare(graph, ["hnca"], key, x=x, budget=0.1)
    >>> [row.name for row in found.rows]
    ['hnca', 'backpropagation']
    """

    rows: tuple[Row, ...]  # the most efficient first; those without efficiency; the yardstick
    left_out: dict[str, str]  # methods that were not measured, and why
    reference: str  # where the reference gradient is from

    @property
    def advice(self) -> str:
        """Which method to take, in a sentence."""
        fair = [row for row in self.rows if row.unbiased and not row.is_seen_biased]
        ranked = [row for row in fair if row.efficiency]
        if not ranked:
            return "No unbiased method was measured: raise the budget, or choose other methods."
        best, *others = ranked
        if not others:
            return f"Take {best.name}: no other unbiased method was measured."
        against = [others[0], *(row for row in others[1:] if row.name == "reinforce")]
        shares = [f"{1 / row.efficiency:.3g} times {row.name}'s" for row in against]
        return f"Take {best.name}: its efficiency on this network is {' and '.join(shares)}."

    def records(self) -> list[dict[str, Any]]:
        """A flat dictionary for each row, as for a spreadsheet."""

        def flat(row: Row) -> dict[str, Any]:
            found = row._asdict()
            by_layer = {kind: found.pop(kind) for kind in ("noise", "variance")}
            return found | {
                f"{kind}/{layer}": value
                for kind, layers in by_layer.items()
                for layer, value in layers.items()
            }

        return [flat(row) for row in self.rows]

    def to_json(self) -> str:
        """Everything that was measured."""
        rows = [row._asdict() for row in self.rows]
        whole = {"advice": self.advice, "reference": self.reference, "rows": rows}
        return json.dumps(whole | {"left_out": self.left_out}, indent=2) + "\n"

    def __str__(self) -> str:
        heads = ("method", "bias", "noise", "variance", "cosine", "ms", "x backprop", "MB", "worth")
        lines = [heads, *(_cells(row) for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        padded = [
            [line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])] for line in lines
        ]
        table = ["  ".join(cells).rstrip() for cells in padded]
        reference = f"reference gradient: {self.reference}"
        return "\n".join([*table, WORDS, *self._learning, *self._missing, reference, self.advice])

    @property
    def _learning(self) -> list[str]:
        names = ", ".join(row.name for row in self.rows if row.is_learning)
        return [fill(f"still learning, a larger budget lets them: {names}", 100)] if names else []

    @property
    def _missing(self) -> list[str]:
        """By reason, as many share one."""
        reasons = dict.fromkeys(self.left_out.values())
        names = lambda why: ", ".join(name for name, each in self.left_out.items() if each == why)
        lines = [f"not measured: {names(why)}: {why}" for why in reasons]
        return [fill(line, 100, break_on_hyphens=False) for line in lines]


def _cells(row: Row) -> tuple[str, ...]:
    number = lambda value: "" if value is None else f"{value:.3g}"
    cost = (f"{row.milliseconds:.3g}", f"{row.relative_time:.2f}", number(row.megabytes))
    efficiency = number(row.efficiency or None)
    measured = map(number, (row.mean_noise, row.mean_variance, row.cosine))
    return (row.name, _bias(row), *measured, *cost, efficiency)


def _bias(row: Row) -> str:
    if row.objective is not None:
        return "another objective"
    if row.bias is not None:
        return f"{100 * row.bias:.2g}%" if row.is_seen_biased else "none"
    if row.z is None or row.visible is None:
        return ""
    return f"seen, z {row.z:.0f}" if row.is_seen_biased else f"none seen (of {row.visible:.1%})"
