"""How Sphinx builds the site: `make docs`. What is made from the code is in generate.py."""

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import equinox

equinox.filter_jit = lambda function: function  # so that autodoc sees functions, with signatures

import console
import generate
import mathml
import source_links

import hnca

os.environ.setdefault("JAX_PLATFORMS", "cpu")
# The kernels that run the pages find the `hnca` of this environment, wherever Sphinx was started.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

project = "hnca"
author = "The hnca maintainers"
copyright = "the hnca maintainers"
version = release = hnca.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
]
exclude_patterns = ["_build", "_generated", "quick/report", "quick/runs", "results/*/**"]
default_role = "py:obj"  # of `name` in a docstring: a link, where there is something to link to
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "furo"
html_title = "hnca"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_show_sphinx = False

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
myst_links_external_new_tab = False

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_class_signature = "mixed"

# Pages with code are run, and run again when the code of the library has changed.
source = generate.fingerprint()
nb_execution_mode = "cache"
nb_execution_cache_path = str(HERE / "_build" / "executed" / source)
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_ipywidgets_js: dict = {}
nb_merge_streams = True


def setup(app) -> None:
    """Makes what is made from the code, and what Sphinx needs to show it."""
    # what is other than at the last build makes all pages anew
    app.add_config_value("source", source, "env")
    app.add_config_value("tools", "".join(p.read_text() for p in sorted(HERE.glob("*.py"))), "env")
    generate.write_all(HERE)
    mathml.setup(app)
    console.setup(app)
    source_links.setup(app)
    app.connect("autodoc-process-docstring", generate.literal_blocks)
    app.connect("autodoc-process-signature", generate.short_signature)
    app.connect("autodoc-skip-member", generate.skip_member)
