"""Shell commands that are run when a page is built, with what they print.

    ```{console}
    hnca train my.py:Mine --out runs/mine
    ```

All blocks of a page run one after another in one new directory. It holds the page's `files`: paths
in the repository, listed in its front matter. What the page `keeps` of what was made goes to
`_generated`. The rest is forgotten, but for what was printed: that is kept until the library, the
files or the commands change.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

HERE = Path(__file__).parent
BLOCK = re.compile(r"^```\{console\}\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)


class Console(SphinxDirective):
    """The directive."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """The commands, each followed by what it printed."""
        page = self.env.doc2path(self.env.docname)
        blocks = BLOCK.findall(Path(page).read_text())
        mine = blocks.index("\n".join(self.content) + "\n")
        listed = lambda key: str(self.env.metadata[self.env.docname].get(key, "")).split()
        files = [HERE.parent / name for name in listed("files")]
        for path in files:
            self.env.note_dependency(str(path))
        cache = Path(self.config.nb_execution_cache_path)
        text = _printed(blocks, files, listed("keeps"), cache)[mine]
        block = nodes.literal_block(text, text, language="console")
        self.set_source_info(block)
        return [block]


def _printed(blocks: list[str], files: list[Path], kept: list[str], cache: Path) -> list[str]:
    """What each block printed, from the cache or from running them all."""
    content = [path.read_text() for path in files]
    key = hashlib.sha256(json.dumps([blocks, content, kept]).encode()).hexdigest()[:16]
    place = cache / f"console-{key}"
    if not (place / "printed.json").exists():
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as directory:
            for path in files:
                shutil.copy(path, directory)
            printed = [_run(block, directory) for block in blocks]
            for name in kept:
                shutil.copy(Path(directory) / name, place / Path(name).name)
        (place / "printed.json").write_text(json.dumps(printed))
    for name in kept:
        shutil.copy(place / Path(name).name, HERE / "_generated")
    return json.loads((place / "printed.json").read_text())


def _run(block: str, directory: str) -> str:
    """Commands and what they print. One that fails, fails the build."""
    environment = os.environ | {"COLUMNS": "88", "NO_COLOR": "1"}
    lines = []
    for command in block.splitlines():
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=directory,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.exit(f"{command}\n{done.stdout}{done.stderr}")
        lines += [f"$ {command}", *done.stdout.strip().splitlines()]
    return "\n".join(lines)


def setup(app) -> None:
    """Registers the directive."""
    app.add_directive("console", Console)
