"""Equations become MathML when the site is built, so that a page loads no script for them."""

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

LINES = r"\begin{{aligned}}{}\end{{aligned}}"


def of(node: nodes.Node, display: str) -> str:
    """The MathML of an equation. One of several lines is aligned at its ampersands."""
    latex = node.astext().strip()
    if r"\\" in latex and r"\begin" not in latex:
        latex = LINES.format(latex)
    return convert(latex, display=display)


def inline(translator: HTML5Translator, node: nodes.Element) -> None:
    translator.body.append(of(node, "inline"))
    raise nodes.SkipNode


def block(translator: HTML5Translator, node: nodes.Element) -> None:
    translator.body.append(f'<div class="equation">{of(node, "block")}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
