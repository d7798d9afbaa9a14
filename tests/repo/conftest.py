"""Where the checked files are. The checkers themselves take text, and know no paths."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CODE_FOLDERS = ("src", "tests", "benchmarks", "tools", "scripts")
TEXT_FOLDERS = (*CODE_FOLDERS, "docs", ".ci", ".github", "recipe")
TEXT_SUFFIXES = {".cff", ".md", ".py", ".pyi", ".toml", ".txt", ".yaml", ".yml"}
TEXT_NAMES = {".gitattributes", ".gitignore", "Makefile", "run"}


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


def _modules(folder: Path) -> dict[str, Path]:
    """Every module below a folder: dotted name -> file. A folder's name is its `__init__.py`."""
    files = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return files


@pytest.fixture(scope="session")
def package_files() -> dict[str, Path]:
    """Every module of the package, by its dotted name."""
    return _modules(ROOT / "src/pullback")


@pytest.fixture(scope="session")
def tool_files() -> dict[str, Path]:
    """Every module of the tools, by its dotted name."""
    return _modules(ROOT / "tools")


@pytest.fixture(scope="session")
def code() -> dict[str, str]:
    """Every Python file of the repository: path from the root -> text."""
    paths = [p for folder in CODE_FOLDERS for p in sorted((ROOT / folder).rglob("*.py"))]
    return {p.relative_to(ROOT).as_posix(): p.read_text(encoding="utf-8") for p in paths}


@pytest.fixture(scope="session")
def texts() -> dict[str, str]:
    """Every text that a reader of the repository may open: path from the root -> text."""
    paths = [p for folder in TEXT_FOLDERS for p in sorted((ROOT / folder).rglob("*"))]
    paths += sorted(ROOT.iterdir())
    return {
        p.relative_to(ROOT).as_posix(): p.read_text(encoding="utf-8")
        for p in paths
        if p.is_file() and (p.suffix in TEXT_SUFFIXES or p.name in TEXT_NAMES)
    }
