"""The examples in the documents run as they are printed."""

import re
import runpy
from pathlib import Path

import jax
import jax.numpy as jnp

from hnca.lab.sweep import read_plan

ROOT = Path(__file__).parent.parent


def code_blocks(path: Path, language: str = "python") -> list[str]:
    fenced = rf"^```{language}\n(.*?)^```"
    return re.findall(fenced, path.read_text(), flags=re.DOTALL | re.MULTILINE)


def test_readme():
    names: dict = {}
    blocks = code_blocks(ROOT / "README.md")
    assert len(blocks) == 2
    for block in blocks:
        exec(block, names)
    x, y = names["x"], jnp.zeros(50, dtype=int)
    policy, _, _, reward = names["step"](
        names["policy"], names["opt_state"], names["state"], x, y, jax.random.key(1)
    )
    assert 0 <= reward <= 1
    assert jax.tree.structure(policy) == jax.tree.structure(names["policy"])
    assert names["estimate"].credit["h1"].shape == (50, 200)
    assert names["estimate"].value.shape == (50,)


def test_plan_of_the_readme(tmp_path):
    [block] = code_blocks(ROOT / "README.md", "toml")
    plan = tmp_path / "plan.toml"
    plan.write_text(block)
    assert len(read_plan(str(plan)).experiments) == 12


def test_what_lies_beyond():
    """The plans can be read, and the tables are those of the committed metrics."""
    for plan in (ROOT / "docs/results/beyond").glob("*.toml"):
        assert read_plan(str(plan)).experiments
    script = runpy.run_path(str(ROOT / "docs/results/beyond.py"))
    page = (ROOT / "docs/results/beyond.md").read_text()
    assert script["with_tables"](page) == page


def test_notation_names_what_exists():
    """Every `name` in code style in the notation table is in the file that its row names."""
    rows = [
        re.split(r"(?<!\\)\|", line)[1:-1]
        for line in (ROOT / "docs/notation.md").read_text().split("## Equations")[0].splitlines()
        if line.startswith("|") and ".py" in line
    ]
    assert len(rows) > 10
    for _, here, where in rows:
        source = (ROOT / "src/hnca" / where.strip(" `")).read_text()
        for name in re.findall(r"`([^`]*)`", here):
            word = re.findall(r"[A-Za-z_]+", name.split("(")[0])[-1]
            assert word in source, f"{name} is not in {where}"
