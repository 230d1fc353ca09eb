"""One colour for a method, everywhere. Runs of the same method are told apart by their dashes.

The paper's six methods stay apart in every kind of colour blindness; all are legible as text on
white."""

COLORS = {
    "hnca": "#1144dd",
    "hnca+baseline": "#009977",
    "reinforce": "#770000",
    "reinforce+baseline": "#bb8800",
    "loo": "#e022b8",
    "loo-independent": "#bb4499",
    "disarm": "#552266",
    "arm": "#8855cc",
    "straight-through": "#778844",
    "local-expectation": "#445566",
}
OTHER = "#444444"
DASHES = ((), (6, 2), (2, 2), (8, 2, 2, 2), (8, 2, 2, 2, 2, 2))  # of the first variant, the second
MARKS = ("—", "- -", "···", "- ·", "- ··")  # the same, where there is no room for a line


def rank(estimator: str) -> int:
    """The place of a method where all of them are listed."""
    return [*COLORS, estimator].index(estimator)


def color(estimator: str) -> str:
    """Of a method, known or not."""
    return COLORS.get(estimator, OTHER)


def mark(variant: int) -> str:
    """A line in letters."""
    return MARKS[variant % len(MARKS)]


def dashes(variant: int) -> tuple[int, ...]:
    """Lengths of strokes and gaps; none for a solid line."""
    return DASHES[variant % len(DASHES)]
