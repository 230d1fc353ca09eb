"""What the documents say holds: their code runs, and what they name is there."""

import re
import runpy
import shutil
import sys
import tomllib
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

import hnca
from hnca.lab.sweep import read_plan

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
RESULTS = DOCS / "results"
sys.path[:0] = [str(DOCS), str(RESULTS)]

import notebooks  # noqa: E402
from committed import collect, with_parts  # noqa: E402
from refusals import refusals  # noqa: E402

PAGES = sorted([*ROOT.glob("*.md"), *DOCS.glob("*.md"), *DOCS.glob("*/README.md")])


def code_blocks(path: Path, language: str = "python") -> list[str]:
    fenced = rf"^```{language}\n(.*?)^```"
    return re.findall(fenced, path.read_text(), flags=re.DOTALL | re.MULTILINE)


def test_readme():
    names: dict = {}
    [block] = code_blocks(ROOT / "README.md")
    exec(block, names)
    x, y = jnp.ones((50, 784)), jnp.zeros(50, dtype=int)
    policy, _, _, reward = names["step"](
        names["policy"], names["opt_state"], names["state"], x, y, jax.random.key(1)
    )
    assert 0 <= reward <= 1
    assert jax.tree.structure(policy) == jax.tree.structure(names["policy"])


def test_readme_is_one_screen():
    assert len((ROOT / "README.md").read_text().splitlines()) < 60


def test_plans_of_the_pages(tmp_path):
    [block] = code_blocks(DOCS / "scaling.md", "toml")
    plan = tmp_path / "plan.toml"
    plan.write_text(block)
    assert len(read_plan(str(plan)).experiments) == 12
    assert len(read_plan(str(ROOT / "examples" / "plan.toml")).experiments) == 6


@pytest.mark.slow
def test_code_that_needs_files_of_a_readers_own(tmp_path, monkeypatch):
    """Blocks that the site does not run, where those files are. (We do not install pandas.)"""
    for name in ("gates.py", "best_reporter.py"):
        shutil.copy(ROOT / "examples" / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    in_training, with_pandas = code_blocks(DOCS / "reporters.md")
    names: dict = {}
    exec(in_training, names)
    assert (tmp_path / "runs/gates/summary.json").exists()
    compile(with_pandas, "reporters.md", "exec")
    [own] = code_blocks(DOCS / "own_estimator.md")
    names["MyEstimator"] = hnca.HNCA
    exec(own, names)
    assert isinstance(names["WithMine"]().make_estimator(), hnca.HNCA)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    """To files, that is: Sphinx checks those to names."""
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
        if not target.startswith(("https:", "http:", "_generated/")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_notebooks_are_the_pages():
    for path, text in notebooks.notebooks().items():
        assert path.read_text() == text, f"{path.name} is old: python docs/notebooks.py"


def test_advice_is_about_refusals():
    """Every key is in some message of the source."""
    messages = [each.message for each in refusals(ROOT / "src" / "hnca")]
    assert len(messages) > 150
    advice = tomllib.loads((DOCS / "advice.toml").read_text())
    stale = [key for key in advice if not any(key in message for message in messages)]
    assert stale == []


@pytest.mark.parametrize("name", ["beyond", "page"])
def test_results_are_those_of_committed_runs(name):
    """The tables of the pages are made of the committed metrics."""
    script = runpy.run_path(str(RESULTS / f"{name}.py"))
    page = script["PAGE"].read_text()
    assert with_parts(page, script["tables"]()) == page


def test_what_is_committed_of_runs(tmp_path):
    """Finished ones, without what is of this machine."""
    for name in ("done", "begun"):
        (tmp_path / "plan" / name).mkdir(parents=True)
        record = '{"command": "hnca sweep /home/me/plan.toml --out /tmp/x/plan"}'
        (tmp_path / "plan" / name / "config.json").write_text(record)
        (tmp_path / "plan" / name / "metrics.jsonl").write_text("{}")
    (tmp_path / "plan" / "done" / "summary.json").write_text("{}")
    with pytest.raises(SystemExit, match="must be a plan's"):
        collect([tmp_path / "plan"], {"other": tmp_path})
    collect([tmp_path / "plan"], {"plan": tmp_path / "there"})
    (kept,) = (tmp_path / "there").iterdir()
    assert kept.name == "done"
    assert "hnca sweep plan.toml --out plan" in (kept / "config.json").read_text()


def test_plans_of_results_can_be_read():
    plans = sorted(RESULTS.glob("*/*.toml"))
    assert len(plans) > 5
    for plan in plans:
        assert read_plan(str(plan)).experiments


def test_notation_names_what_exists():
    """Every `name` in code style in the notation table is in the file that its row names."""
    rows = [
        re.split(r"(?<!\\)\|", line)[1:-1]
        for line in (DOCS / "notation.md").read_text().split("## The equations")[0].splitlines()
        if line.startswith("|") and ".py" in line
    ]
    assert len(rows) > 10
    for _, here, where in rows:
        source = (ROOT / "src/hnca" / where.strip(" `")).read_text()
        for name in re.findall(r"`([^`]*)`", here):
            word = re.findall(r"[A-Za-z_]+", name.split("(")[0])[-1]
            assert word in source, f"{name} is not in {where}"
