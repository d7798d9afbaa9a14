"""Mathematics as MathML, made at build time: no script and no network is needed to read it."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert


def visit_inline(translator: Any, node: Any) -> None:
    """Writes a formula within a line."""
    translator.body.append(convert(node.astext(), display="inline"))
    raise nodes.SkipNode


def visit_block(translator: Any, node: Any) -> None:
    """Writes a formula in a paragraph of its own."""
    converted = convert(node.astext(), display="block")
    translator.body.append(f'<div class="math">{converted}</div>')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Registers the renderer."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
