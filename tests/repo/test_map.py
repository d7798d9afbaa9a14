"""The documents name only paths that exist, and the map names every part of the package."""

from __future__ import annotations

import re
from pathlib import Path

DOCUMENTS = ("ARCHITECTURE.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "README.md", "SECURITY.md")
FROM_ROOT = re.compile(r"(?<![\w./])(?:src|tests|docs|benchmarks|tools|\.ci)/[\w./-]*")
IN_QUOTES = re.compile(r"`([\w./-]+\.(?:md|py|toml|yaml|yml|json))`")


def named_paths(text: str) -> set[str]:
    """Paths in a document: whatever starts with a top folder, and quoted names of files."""
    return {p.rstrip("./") for p in [*FROM_ROOT.findall(text), *IN_QUOTES.findall(text)]}


def missing_paths(text: str, root: Path) -> list[str]:
    """Paths that do not exist; a name without a folder may be a file of a family of operators."""
    roles = {path.name for path in root.glob("src/pullback/operators/*/*")}
    named = named_paths(text) - roles
    return sorted(path for path in named if not (root / path).exists())


def unmapped(text: str, root: Path) -> list[str]:
    """Folders and top-level modules of the package that the text does not name."""
    parts = [p.parent for p in root.glob("src/pullback/*/**/__init__.py")]
    parts += [p for p in root.glob("src/pullback/*.py") if p.name != "__init__.py"]
    names = named_paths(text)
    return sorted({p.relative_to(root).as_posix() for p in parts} - names)


def test_every_path_in_the_documents_exists(root):
    documents = [root / name for name in DOCUMENTS] + sorted(root.glob("docs/**/*.md"))
    assert len(documents) > len(DOCUMENTS)
    for path in documents:
        assert missing_paths(path.read_text(encoding="utf-8"), root) == [], path.name


def test_the_map_names_every_part_of_the_package(root):
    assert unmapped((root / "ARCHITECTURE.md").read_text(encoding="utf-8"), root) == []


def test_a_missing_path_is_caught(tmp_path):
    (tmp_path / "src").mkdir()
    text = "See src/gone/, `gone.md` and src/. Not a path: https://example.org/src/x, `a.b`."
    assert missing_paths(text, tmp_path) == ["gone.md", "src/gone"]


def test_an_unnamed_folder_or_module_is_caught(tmp_path):
    folder = tmp_path / "src/pullback/schema"
    folder.mkdir(parents=True)
    for path in (folder / "__init__.py", folder / "parse.py", folder.parent / "errors.py"):
        path.touch()
    assert unmapped("", tmp_path) == ["src/pullback/errors.py", "src/pullback/schema"]
    assert unmapped("`src/pullback/schema/` src/pullback/errors.py", tmp_path) == []
