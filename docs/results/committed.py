"""Runs whose records are committed, and pages whose tables are made of them."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from hnca.lab.experiments import task_of
from hnca.lab.report.reading import Collection, find_runs, read_runs
from hnca.lab.report.record import RunRecord
from hnca.lab.sweep.plans import read_plan, runs_of

HERE = Path(__file__).parent
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


@cache  # a page asks for the same runs in several places
def read_committed(directory: Path) -> Collection:
    """The runs below a directory, of which none may be damaged."""
    found = read_runs(find_runs([directory]) if directory.exists() else [])
    for path, reason in found.damaged:
        raise SystemExit(f"{path}: {reason}")
    return found


def in_the_papers_settings() -> list[RunRecord]:
    """The VAEs of the paper's table: full length, nothing left out."""
    runs = read_committed(HERE / "full" / "runs").runs
    return [run for run in runs if run.task == "vae" and run.settings["prune_children"]]


def rate_of(run: RunRecord) -> float:
    """The learning rate that it began with."""
    return run.settings["learning_rate"]


def active(run: RunRecord) -> str:
    """How many units of each layer are active in the end."""
    counts = [count for name, count in run.final.items() if name.startswith("active_units/")]
    return " / ".join(str(int(count)) for count in counts)


def missing_runs(plan: Path, found: Collection) -> str:
    """Those of a plan that are not there, and of how many seeds: a line for each task."""
    read = read_plan(str(plan))
    wanted = runs_of(read.experiments, usual=read.usual)
    there = {(run.path.name, run.settings["epochs"]) for run in found.runs if run.complete}
    missing = [run for run in wanted if (run.name, run.experiment.epochs) not in there]
    if not missing:
        return f"All {len(wanted)} runs of the plan are there."
    count = f"{len(wanted) - len(missing)} of the {len(wanted)} runs of the plan are there"
    lines = []
    for task in dict.fromkeys(task_of(type(run.experiment)) for run in missing):
        ours = [run for run in missing if task_of(type(run.experiment)) == task]
        seeds = Counter(run.name.removesuffix(f"-{run.experiment.seed}") for run in ours)
        words = (name if count == 1 else f"{name} ({count} seeds)" for name, count in seeds.items())
        lines.append(f"- {Path(task).name}: {', '.join(words)}")
    return "\n".join([f"{count}. Missing:", "", *lines])


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
