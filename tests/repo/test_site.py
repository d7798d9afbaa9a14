"""The site: every page of the documentation stands in a list of contents."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

TOCTREE = re.compile(r"^```\{toctree\}\n(.*?)^```", re.MULTILINE | re.DOTALL)


def listed_pages(page: str, text: str, pages: set[str]) -> set[str]:
    """The pages that the lists of contents on a page name, without endings."""
    folder = PurePosixPath(page).parent
    found: set[str] = set()
    for block in TOCTREE.findall(text):
        lines = [line.strip() for line in block.splitlines()]
        names = [line for line in lines if line and not line.startswith(":")]
        for name in names:
            target = re.sub(r".*<(.*)>$", r"\1", name)
            path = PurePosixPath(*_joined(folder, target))
            if ":glob:" in lines:
                found |= {p for p in pages if PurePosixPath(p).match(str(path))}
            else:
                found.add(str(path))
    return found


def _joined(folder: PurePosixPath, target: str) -> list[str]:
    parts = list(folder.parts)
    for part in target.split("/"):
        if part == "..":
            parts.pop()
        else:
            parts.append(part)
    return parts


def unlisted_pages(docs: Path) -> list[str]:
    """Pages in no list of contents."""
    paths = [p for p in docs.rglob("*.md") if "made" not in p.parts and "_build" not in p.parts]
    texts = {p.relative_to(docs).with_suffix("").as_posix(): p.read_text("utf-8") for p in paths}
    listed: set[str] = {"index"}
    for page, text in texts.items():
        listed |= listed_pages(page, text, set(texts) - {page})
    return sorted(set(texts) - listed)


def test_every_page_is_in_a_list_of_contents(root):
    assert unlisted_pages(root / "docs") == []


def test_a_page_in_no_list_is_found(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "index.md").write_text("```{toctree}\n:maxdepth: 1\n\nTitle <a>\nfolder/b\n```\n")
    for name in ("a", "folder/b", "folder/c"):
        (tmp_path / f"{name}.md").write_text("# page\n")
    assert unlisted_pages(tmp_path) == ["folder/c"]
    (tmp_path / "a.md").write_text("```{toctree}\n:glob:\n\nfolder/*\n```\n")
    assert unlisted_pages(tmp_path) == []
