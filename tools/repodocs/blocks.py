"""The document model of a page: sections of paragraphs, lists, tables and source.

Pages are built from these blocks only, and the renderers escape every text in them, so that no
name or text of a scanned repository can become markup.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from typing import NamedTuple

MOST_NAME_BYTES = 230  # of a file name: file systems allow 255
OWN_NAMES = {".repodocs", "_names", "repodocs-names.js", "repodocs.css", "repodocs.js"}
PAGE_ENDINGS = (".html", ".md")


class Code(NamedTuple):
    """A piece of source inside a sentence."""

    text: str


class Link(NamedTuple):
    """A link to a page of the same output (a path without extension), or inside the page."""

    text: str
    page: str
    anchor: str = ""
    is_code: bool = False


Inline = str | Code | Link
Line = Sequence[Inline]


class Paragraph(NamedTuple):
    """A paragraph."""

    parts: Line


class Bullets(NamedTuple):
    """A list without numbers."""

    items: Sequence[Line]


class Table(NamedTuple):
    """A table with a head."""

    head: Sequence[str]
    rows: Sequence[Sequence[Line]]


class Source(NamedTuple):
    """Source text with numbered lines."""

    text: str
    language: str
    path: str
    numbered: bool = True


class Section(NamedTuple):
    """A section with its title, anchor and contents."""

    title: str
    anchor: str
    blocks: Sequence[Block]


Block = Paragraph | Bullets | Table | Source | Section


class Page(NamedTuple):
    """A page: where it is written (without extension), and its contents."""

    target: str
    title: str
    folder: str  # of the source, for the links to its parents
    blocks: Sequence[Block]


def anchor_of(name: str) -> str:
    """Return an anchor for a name: letters, digits, dots and hyphens.

    >>> anchor_of("Code patterns & idioms")
    'code-patterns-idioms'
    """
    return re.sub(r"[^\w.]+", "-", name).strip("-").lower() or "section"


def docs_page(path: str) -> str:
    """Return the page of a file: ``<path>_docs``."""
    return _shorten(f"{path}_docs")


def keyword_page(path: str) -> str:
    """Return the page with the keywords of a file: ``<path>_kw``."""
    return _shorten(f"{path}_kw")


def folder_page(folder: str) -> str:
    """Return the page of a folder.

    >>> folder_page("src/pages"), folder_page("_names/index.html")
    ('src/pages/index', '_names~/index.html~/index')
    """
    return f"{_free(folder)}/index" if folder else "index"


def _free(folder: str) -> str:
    """Return the place of a folder; one named like a page or a part of the output gets a mark."""
    parts = folder.split("/")
    return "/".join(f"{p}~" if p in OWN_NAMES or p.endswith(PAGE_ENDINGS) else p for p in parts)


def _shorten(target: str) -> str:
    folder, slash, name = target.rpartition("/")
    folder = _free(folder)
    data = os.fsencode(name)
    if len(data) > MOST_NAME_BYTES:
        mark = hashlib.sha256(data).hexdigest()[:12]
        name = data[: MOST_NAME_BYTES - 20].decode("utf-8", "ignore") + "_" + mark
    return f"{folder}{slash}{name}"


def marked(text: str) -> list[Inline]:
    """Return the parts of a sentence in which backticks mark code.

    >>> marked("Runs ``f`` once.")
    ['Runs ', Code(text='f'), ' once.']
    """
    parts: list[Inline] = []
    for number, piece in enumerate(re.split(r"``([^`]+)``|(?<![`\w])`([^`\n]+)`(?![`\w])", text)):
        if piece:
            parts.append(Code(piece) if number % 3 else piece)
    return parts


def printable(text: str) -> str:
    """Return a text that can be encoded: undecodable bytes and control characters are replaced."""
    text = text.encode("utf-8", "replace").decode("utf-8")
    return re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", "\N{REPLACEMENT CHARACTER}", text)
