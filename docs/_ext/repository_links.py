"""Links of the pages to files of the repository that are no pages: shown as names of files.

The pages are read on a repository host too, where ``[the results](../benchmarks/RESULTS.md)`` is a
link. On the site it points to the page that the repository documentation has of the file.
"""

from __future__ import annotations

import os
import posixpath
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from docutils import nodes
from sphinx.transforms import SphinxTransform

ROOT = Path(__file__).resolve().parents[2]


class RepositoryLinks(SphinxTransform):
    """Points links to files outside of ``docs/`` to their pages in ``repository/``."""

    default_priority = 4  # before references are resolved

    def apply(self, **_: Any) -> None:
        """Replaces the targets of references of one page."""
        for node in list(self.document.findall(nodes.reference)):
            self._replace(node, node.get("refuri", ""))
        kinds = ("pending_xref", "download_reference")  # the second: a file that is no page
        for node in list(self.document.findall(lambda n: n.tagname in kinds)):
            self._replace(node, node.get("reftarget", ""))

    def _replace(self, node: Any, target: str) -> None:
        split = urlsplit(target)
        if not target or split.scheme or not split.path:
            return
        folder = (ROOT / "docs" / self.env.docname).parent
        path = Path(os.path.normpath(folder / split.path))
        if not path.exists():
            path = path.with_name(path.name + ".md")  # MyST drops the ending of documents
        if not path.is_relative_to(ROOT) or not path.exists():
            return
        relative = path.relative_to(ROOT).as_posix()
        if relative.startswith("docs/") and path.suffix in (".md", ".png", ".svg"):
            return
        depth = self.env.docname.count("/")
        page = f"{relative}/index.html" if path.is_dir() else f"{relative}_docs.html"
        uri = posixpath.join(*[".."] * depth, "repository", page)
        uri += f"#{split.fragment}" if split.fragment else ""
        link = nodes.reference("", node.astext(), refuri=uri)
        node.replace_self(link)


def setup(app: Any) -> dict[str, bool]:
    """Registers the transform."""
    app.add_transform(RepositoryLinks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
