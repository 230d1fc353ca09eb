"""Words for people."""


def counted(count: int, what: str) -> str:
    """So many of something: `1 run`, `2,000 runs`."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"
