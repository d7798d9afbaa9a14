"""Pages as Markdown, with the same contents as the HTML pages.

Lines inside a fenced block cannot have anchors: a link to a line leads to the source's section.
"""

from __future__ import annotations

import html
import os
import posixpath
import re
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

EXTENSION = ".md"
MARKS = re.compile(r"([\\`*_\[\]|~#])")
LINE_ANCHOR = re.compile(r"L\d+\Z")
LEXERS = {"reStructuredText": "rst", "C++": "cpp"}


def escape(text: str) -> str:
    """Return a text in which Markdown and HTML see no markup."""
    return MARKS.sub(r"\\\1", html.escape(printable(text), quote=False)).replace("\n", " ")


def code(text: str) -> str:
    """Return a code span; the fence is longer than any run of backticks in the text."""
    text = " ".join(printable(text).split())
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    space = " " if text.startswith("`") or text.endswith("`") or not text else ""
    return f"{fence}{space}{text}{space}{fence}".replace("|", "\\|")


def reference(page: str, target: str, anchor: str = "") -> str:
    """Return a relative address from one page to another."""
    if LINE_ANCHOR.match(anchor):
        anchor = "source"
    if not target:
        return f"#{quote(anchor)}"
    path = posixpath.relpath(target + EXTENSION, posixpath.dirname(page) or ".")
    return quote(os.fsencode(path)) + (f"#{quote(anchor)}" if anchor else "")


def render_page(page: Page, site_title: str, home: str = "") -> str:
    """Return a whole page."""
    links = [f"[{escape(site_title)}]({reference(page.target, 'index')})"]
    parts = page.folder.split("/") if page.folder else []
    for index, part in enumerate(parts):
        target = folder_page("/".join(parts[: index + 1]))
        links.append(f"[{escape(part)}]({reference(page.target, target)})")
    if home:
        is_relative = not urlsplit(home).scheme and not home.startswith("/")
        address = "../" * page.target.count("/") + home if is_relative else home
        links.insert(0, f"[Documentation]({address})")
    body = "".join(render_block(page.target, block, 2) for block in page.blocks)
    return f"# {escape(page.title)}\n\n{' / '.join(links)}\n\n{body}".rstrip() + "\n"


def render_block(page: str, block: Block, level: int) -> str:
    """Return one block with everything in it."""
    if isinstance(block, Section):
        inner = "".join(render_block(page, b, min(level + 1, 6)) for b in block.blocks)
        anchor = f'<a id="{html.escape(block.anchor)}"></a>'
        return f"{anchor}\n\n{'#' * level} {escape(block.title)}\n\n{inner}"
    if isinstance(block, Paragraph):
        return f"{_line(page, block.parts)}\n\n"
    if isinstance(block, Bullets):
        return "".join(f"- {_line(page, item)}\n" for item in block.items) + "\n"
    if isinstance(block, Table):
        rows = [[_line(page, cell) for cell in row] for row in block.rows]
        lines = [" | ".join(map(escape, block.head)), " | ".join("---" for _ in block.head)]
        lines += [" | ".join(row) for row in rows]
        return "".join(f"| {line} |\n" for line in lines) + "\n"
    return _source(block)


def _line(page: str, parts: Line) -> str:
    return "".join(_inline(page, part) for part in parts)


def _inline(page: str, part: Inline) -> str:
    if isinstance(part, Link):
        text = code(part.text) if part.is_code else escape(part.text)
        return f"[{text}]({reference(page, part.page, part.anchor)})"
    return code(part.text) if isinstance(part, Code) else escape(part)


def _source(block: Source) -> str:
    text = printable(block.text).rstrip("\n")
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    language = LEXERS.get(block.language, block.language.lower().replace(" ", ""))
    return f"{fence}{language}\n{text}\n{fence}\n\n"
