"""Pages as HTML: every text is escaped, source is highlighted line by line with anchors."""

from __future__ import annotations

import html
import os
import posixpath
from importlib import resources
from urllib.parse import quote, urlsplit

from tools.repodocs.blocks import (
    Block,
    Bullets,
    Code,
    Inline,
    Line,
    Link,
    Page,
    Paragraph,
    Section,
    Source,
    Table,
    folder_page,
    printable,
)

EXTENSION = ".html"
HIGHLIGHTED_CHARACTERS = 400_000  # beyond it the source is plain: highlighting reads 1 MB/s
LONG_LINE = 3_000


def escape(text: str) -> str:
    """Return a text for HTML, also inside of attributes."""
    return html.escape(printable(text), quote=True)


def reference(page: str, target: str, anchor: str = "") -> str:
    """Return a relative address from one page to another."""
    if not target:
        return f"#{quote(anchor)}"
    path = posixpath.relpath(target + EXTENSION, posixpath.dirname(page) or ".")
    return quote(os.fsencode(path)) + (f"#{quote(anchor)}" if anchor else "")


def render_page(page: Page, site_title: str, home: str = "") -> str:
    """Return a whole page."""
    depth = page.target.count("/")
    root = "../" * depth
    sections = [block for block in page.blocks if isinstance(block, Section)]
    contents = "".join(
        f'<li><a href="#{quote(s.anchor)}">{escape(s.title)}</a></li>' for s in sections
    )
    is_relative = not urlsplit(home).scheme and not home.startswith("/")
    address = escape(root + home if is_relative else home)
    back = f'<a class="home" href="{address}">Documentation</a>' if home else ""
    body = "".join(render_block(page.target, block, 2) for block in page.blocks)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(page.title)} - {escape(site_title)}</title>"
        f'<link rel="stylesheet" href="{root}repodocs.css">'
        f'<script defer src="{root}repodocs.js"></script></head>'
        f'<body data-root="{root}"><header>{back}<nav class="path">{_parents(page, site_title)}'
        '</nav><div class="search"><input type="search" id="search" autocomplete="off" '
        'placeholder="Search names and files" aria-label="Search names and files">'
        '<ol id="results" hidden></ol></div><button id="theme" type="button" '
        'title="Light or dark" aria-label="Light or dark">&#x25d0;</button></header>'
        f'<div class="columns"><nav class="contents"><ul>{contents}</ul></nav>'
        f"<main><h1>{escape(page.title)}</h1>{body}</main></div></body></html>\n"
    )


def _parents(page: Page, site_title: str) -> str:
    links = [f'<a href="{reference(page.target, "index")}">{escape(site_title)}</a>']
    parts = page.folder.split("/") if page.folder else []
    for index, part in enumerate(parts):
        target = folder_page("/".join(parts[: index + 1]))
        links.append(f'<a href="{reference(page.target, target)}">{escape(part)}</a>')
    return " / ".join(links)


def render_block(page: str, block: Block, level: int) -> str:
    """Return one block with everything in it."""
    if isinstance(block, Section):
        title = f'<h{level} id="{escape(block.anchor)}">{escape(block.title)}</h{level}>'
        inner = "".join(render_block(page, b, min(level + 1, 6)) for b in block.blocks)
        return f"<section>{title}{inner}</section>\n"
    if isinstance(block, Paragraph):
        return f"<p>{_line(page, block.parts)}</p>\n"
    if isinstance(block, Bullets):
        items = "".join(f"<li>{_line(page, item)}</li>" for item in block.items)
        return f"<ul>{items}</ul>\n"
    if isinstance(block, Table):
        head = "".join(f"<th>{escape(name)}</th>" for name in block.head)
        rows = "".join(
            "<tr>" + "".join(f"<td>{_line(page, cell)}</td>" for cell in row) + "</tr>"
            for row in block.rows
        )
        return (
            f'<div class="wide"><table><thead><tr>{head}</tr></thead>'
            f"<tbody>{rows}</tbody></table></div>\n"
        )
    return _source(block)


def _line(page: str, parts: Line) -> str:
    return "".join(_inline(page, part) for part in parts)


def _inline(page: str, part: Inline) -> str:
    if isinstance(part, Link):
        text = escape(part.text)
        inner = f"<code>{text}</code>" if part.is_code else text
        return f'<a href="{escape(reference(page, part.page, part.anchor))}">{inner}</a>'
    if isinstance(part, Code):
        return f"<code>{escape(part.text)}</code>"
    return escape(part)


def _source(block: Source) -> str:
    lines = highlight(block)
    if not block.numbered:
        return f'<pre class="example"><code>{chr(10).join(lines)}</code></pre>\n'
    rows = "".join(
        f'<span class="line" id="L{n}"><a href="#L{n}">{n}</a>{text}\n</span>'
        for n, text in enumerate(lines, 1)
    )
    return f'<pre class="source"><code>{rows}</code></pre>\n'


def highlight(block: Source) -> list[str]:
    """Return the lines of a source as HTML; plain where Pygments is missing or has no lexer."""
    text = printable(block.text)
    if len(text) <= HIGHLIGHTED_CHARACTERS:
        marked = _highlight(text, block.language, block.path)
        if marked is not None:
            return marked
    return [html.escape(_shorten(line)) for line in text.removesuffix("\n").split("\n")]


def _shorten(line: str) -> str:
    left = len(line) - LONG_LINE
    return line if left <= 0 else f"{line[:LONG_LINE]} … ({left:,} more characters)"


def _highlight(text: str, language: str, path: str) -> list[str] | None:
    try:
        from pygments import lex
        from pygments.lexers import find_lexer_class, find_lexer_class_for_filename
        from pygments.token import STANDARD_TYPES
    except ImportError:
        return None
    if max(map(len, text.split("\n"))) > LONG_LINE:
        return None
    kind = find_lexer_class(language) if language else None
    kind = kind or find_lexer_class_for_filename(posixpath.basename(printable(path)))
    if kind is None:
        return None
    lines = [""]
    for token, value in lex(text, kind(stripnl=False, ensurenl=False)):
        while token not in STANDARD_TYPES:
            token = token.parent
        style = STANDARD_TYPES[token]
        for number, piece in enumerate(value.split("\n")):
            if number:
                lines.append("")
            if piece:
                shown = html.escape(piece)
                lines[-1] += f'<span class="{style}">{shown}</span>' if style else shown
    if len(lines) > 1 and not lines[-1]:
        lines.pop()
    return lines


def style_sheet() -> str:
    """Return the style sheet: the layout, and the colours of source in light and dark."""
    base = (resources.files("tools.repodocs") / "assets/repodocs.css").read_text(encoding="utf-8")
    try:
        from pygments.formatters import HtmlFormatter
    except ImportError:
        return base
    light = HtmlFormatter(style="default").get_style_defs(":root[data-theme=light] pre")
    dark = HtmlFormatter(style="github-dark").get_style_defs(":root[data-theme=dark] pre")
    kept = [line for line in f"{light}\n{dark}".split("\n") if "pre ." in line]
    return base + "\n".join(kept) + "\n"


def script() -> str:
    """Return the script of the search box and of the theme button."""
    return (resources.files("tools.repodocs") / "assets/repodocs.js").read_text(encoding="utf-8")
