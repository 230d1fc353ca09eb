"""Equations as MathML, which browsers show by themselves: no script, and nothing to load."""

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml


def setup(app) -> None:
    """Registers the renderer that `html_math_renderer = "mathml"` names."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))


def _inline(translator, node) -> None:
    translator.body.append(tex2mathml(node.astext(), as_block=False))
    raise nodes.SkipNode


def _block(translator, node) -> None:
    equation = tex2mathml(node.astext(), as_block=True)
    translator.body.append(f'<div class="equation">{equation}</div>')
    raise nodes.SkipNode
