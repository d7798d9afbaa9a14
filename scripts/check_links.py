"""Checks the links inside of a built site: every file and every anchor exists.

    python scripts/check_links.py build/docs

Links to the address where the site is published count as links inside of it, and the page that the
message of each error names exists. Links to other hosts are not followed. Files in ``_static`` are
templates of the theme, and are skipped.
"""

from __future__ import annotations

import argparse
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pullback.cli.explain_error import error_classes
from pullback.errors import SITE


class _Page(HTMLParser):
    """The targets and anchors of one page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.targets: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Notes links, sources and names."""
        for name, value in attrs:
            if value is None:
                continue
            if name in ("href", "src") and tag != "base":
                self.targets.append(value)
            elif name == "id" or (name == "name" and tag == "a"):
                self.anchors.add(value)


def read_page(path: Path) -> _Page:
    """The links and anchors of a file."""
    page = _Page()
    page.feed(path.read_text(encoding="utf-8", errors="replace"))
    return page


def broken_links(site: Path) -> list[str]:
    """A line for each link that leads nowhere."""
    site = site.resolve()
    paths = [p for p in sorted(site.rglob("*.html")) if "_static" not in p.relative_to(site).parts]
    pages = {path: read_page(path) for path in paths}
    problems = []
    for path, page in pages.items():
        for target in page.targets:
            is_published = target.startswith(f"{SITE}/")
            split = urlsplit(target.removeprefix(f"{SITE}/") if is_published else target)
            if split.scheme or split.netloc or target.startswith(("#!", "data:")):
                continue
            folder = site if is_published else path.parent
            file = (folder / unquote(split.path)).resolve() if split.path else path
            file = file / "index.html" if file.is_dir() else file
            where = path.relative_to(site)
            if not file.exists():
                problems.append(f"{where}: {target}: no such file")
            elif split.fragment and file in pages:
                anchors = pages[file].anchors
                if unquote(split.fragment) not in anchors and split.fragment not in anchors:
                    problems.append(f"{where}: {target}: no such anchor")
    return problems


def missing_error_pages(site: Path) -> list[str]:
    """A line for each page that the message of an error names and the site does not have."""
    pages = [f"errors/{page}.html" for page in error_classes()]
    return [f"{page}: no such file" for page in pages if not (site / page).exists()]


def main() -> int:
    """Prints what is broken; the exit status says whether anything is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("site", type=Path)
    site = parser.parse_args().site
    if not any(site.rglob("*.html")):
        print(f"{site} has no pages", file=sys.stderr)
        return 1
    problems = broken_links(site) + missing_error_pages(site)
    print("\n".join(problems) or "no broken links")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
