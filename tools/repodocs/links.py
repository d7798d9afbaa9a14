"""Broken links of a folder of HTML pages: targets and anchors that do not exist."""

from __future__ import annotations

import os
import posixpath
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote_to_bytes, urlsplit


class _Page(HTMLParser):
    """Collects the links and the anchors of one page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.links: set[str] = set()
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002 - a fixed signature
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.add(value)
            elif name == "id" and value:
                self.anchors.add(value)


def _decode(text: str) -> str:
    return os.fsdecode(unquote_to_bytes(text))


def broken_links(out: Path) -> list[str]:
    """Return ``page: address`` for each link inside a folder that leads nowhere in it."""
    anchors: dict[str, set[str]] = {}
    links: list[tuple[str, str, str]] = []
    for folder, _, names in os.walk(out):
        for name in sorted(names):
            if name.endswith(".html"):
                path = os.path.relpath(os.path.join(folder, name), out)
                page = _Page()
                page.feed((out / path).read_text(encoding="utf-8"))
                anchors[path] = page.anchors
                links += [(path, *target) for target in _targets(path, page.links)]
    broken = set()
    for path, target, anchor in links:
        if target.startswith("../"):
            continue  # a page of the site around this folder
        if target not in anchors:
            if not (out / target).exists():
                broken.add(f"{path}: {target}")
        elif anchor and anchor not in anchors[target]:
            broken.add(f"{path}: {target}#{anchor}")
    return sorted(broken)


def _targets(path: str, links: set[str]) -> list[tuple[str, str]]:
    found = []
    for link in links:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        target = path
        if parts.path:
            target = posixpath.normpath(
                posixpath.join(posixpath.dirname(path), _decode(parts.path))
            )
        found.append((target, _decode(parts.fragment)))
    return found
