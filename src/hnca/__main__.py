"""The command `hnca`: the lab's command line, where the lab is installed."""

import re
import sys
from importlib.metadata import PackageNotFoundError, distribution, requires


def main() -> None:
    """Runs the command line, or says in one line what to install."""
    if missing := _missing():
        names = ", ".join(missing)
        sys.exit(f"error: the command line needs {names}: pip install 'hnca[lab]'")
    from .lab.cli import main

    main()


def _missing() -> list[str]:
    """The packages of the extra `lab` that are not here."""
    listed = [line for line in requires("hnca") or [] if re.search(r"extra == .lab.", line)]
    return [name for name in map(_name, listed) if not _is_here(name)]


def _name(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0]


def _is_here(package: str) -> bool:
    try:
        return bool(distribution(package))
    except PackageNotFoundError:
        return False


if __name__ == "__main__":
    main()
