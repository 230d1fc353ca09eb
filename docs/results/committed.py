"""Runs whose records are committed, and pages whose tables are made of them."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hnca.lab.report.reading import Collection, find_runs, read_runs

FILES = ("config.json", "metrics.jsonl", "summary.json")  # what was measured, without checkpoints


def collect(directories: Iterable[Path], places: Mapping[str, Path]) -> None:
    """Copies what finished runs have measured to where it is committed. `directories` have the
    names of their plans, as `hnca sweep` calls them, and `places` has the plans that there are.
    Commands keep the names of files, and not where they were on this machine."""
    for directory in directories:
        if (there := places.get(directory.name)) is None:
            raise SystemExit(f"{directory}: its name must be a plan's, {' or '.join(places)}")
        for run in find_runs([directory]):
            if not (run / "summary.json").exists():
                continue
            (there / run.name).mkdir(parents=True, exist_ok=True)
            for name in FILES:
                text = (run / name).read_text()
                (there / run.name / name).write_text(re.sub(r"(?<=[ \"])/[^ \"]*/", "", text))
        print(f"wrote {there}")


def read_committed(directory: Path) -> Collection:
    """The runs below a directory, of which none may be damaged."""
    found = read_runs(find_runs([directory]) if directory.exists() else [])
    for path, reason in found.damaged:
        raise SystemExit(f"{path}: {reason}")
    return found


def in_markdown(head: Iterable[Any], rows: Iterable[Iterable[Any]]) -> str:
    """A table."""
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def with_parts(page: str, parts: Mapping[str, str]) -> str:
    """The page, with what is between its marks made anew."""
    for name, text in parts.items():
        begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        if not (begin in page and end in page):
            raise SystemExit(f"the page has no place for {name}: {begin} ... {end}")
        before, _, rest = page.partition(begin)
        _, _, after = rest.partition(end)
        page = f"{before}{begin}\n{text}\n{end}{after}"
    return page


def write_page(path: Path, parts: Mapping[str, str]) -> None:
    """Writes the parts into a page that is there."""
    path.write_text(with_parts(path.read_text(), parts))
    print(f"wrote {path}")
