"""Pages of the site as notebooks in `examples/`: the same text and code.

python docs/notebooks.py
"""

import json
import re
from pathlib import Path

HERE = Path(__file__).parent
PAGES = ("own_network", "own_objective")
CELL = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```\n", flags=re.DOTALL | re.MULTILINE)
FRONT = re.compile(r"\A---\n.*?^---\n", flags=re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:|#)")  # to another page
DOWNLOAD = re.compile(r"\{download\}`([^`<]*?) <[^`]*>`")  # only the site has those


def notebook(page: str) -> str:
    """A page as the JSON of a notebook, without outputs."""
    text = FRONT.sub("", page)
    cells = []
    for number, part in enumerate(CELL.split(text)):  # text and code take turns
        if part.strip():
            cells.append(_code(part) if number % 2 else _markdown(part))
    numbered = [{"id": f"cell-{number}", **cell} for number, cell in enumerate(cells)]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    record = {
        "cells": numbered,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(record, indent=1, ensure_ascii=False) + "\n"


def _code(part: str) -> dict:
    empty = {"execution_count": None, "metadata": {}, "outputs": []}
    return {"cell_type": "code", **empty, "source": _lines(part)}


def _markdown(part: str) -> dict:
    text = DOWNLOAD.sub(r"\1", LINK.sub("](../docs/", part))
    return {"cell_type": "markdown", "metadata": {}, "source": _lines(text)}


def _lines(part: str) -> list[str]:
    return part.strip().splitlines(keepends=True)


def notebooks() -> dict[Path, str]:
    """What each notebook has to be."""
    return {
        HERE.parent / "examples" / f"{name}.ipynb": notebook((HERE / f"{name}.md").read_text())
        for name in PAGES
    }


if __name__ == "__main__":
    for path, text in notebooks().items():
        path.write_text(text)
