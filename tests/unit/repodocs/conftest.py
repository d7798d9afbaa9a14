"""A small repository with every odd case, made anew because Git cannot hold all of it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

HOSTILE = "<img src=x onerror=alert(1)>.py"
EXECUTED = "executed.txt"
UNDECODABLE = os.fsdecode(b"name_\xff.txt")
LONG_NAME = "n" * 240 + ".txt"

FILES: dict[str, str | bytes] = {
    "README.md": (
        "# Shapes\n\nAreas of plane figures. More text.\n\n"
        "```python\nimport shapes\n\nprint(shapes.area_of(shapes.Square(2)))\n```\n\n"
        "See `SquareTable` and NumPy.\n"
    ),
    "ARCHITECTURE.md": (
        "# Architecture\n\nThe parts.\n\n| folder | contents |\n|---|---|\n"
        "| `shapes/` | figures and their areas |\n| `shapes/figures.py` | one class a figure |\n"
    ),
    "guide.rst": (
        "Guide\n=====\n\nHow to use it.\n\nFirst steps\n-----------\n\n"
        ".. code-block:: python\n\n    from shapes.figures import Square\n    Square(3).area()\n"
    ),
    "shapes/__init__.py": (
        '"""Figures and areas, e.g. of squares."""\n\n'
        'from shapes.figures import Square\nfrom shapes.measure import *\n\n__all__ = ["Square"]\n'
    ),
    "shapes/figures.py": (
        '"""Plane figures."""\n\n'
        "from __future__ import annotations\n\n"
        "import subprocess\n"
        "from dataclasses import dataclass\n"
        "from typing import TYPE_CHECKING, overload\n\n"
        "if TYPE_CHECKING:\n    from .measure import area_of as measure_area\n\n"
        "UNIT_SIDE = 1.0  # for SquareTable\n\n\n"
        "@dataclass(frozen=True, slots=True)\n"
        "class Square:\n"
        '    """A square <b>with</b> a side.\n\n    >>> Square(2).area()\n    4\n    """\n\n'
        "    side: float = UNIT_SIDE\n\n"
        "    def area(self) -> float:\n"
        '        """The area."""\n        return self.side**2\n\n'
        "    def sides(self):\n        yield self.side\n\n\n"
        "@overload\ndef run(name: int) -> None: ...\n@overload\ndef run(name: str) -> None: ...\n"
        "def run(name):\n    subprocess.run(name, shell=True)\n"
    ),
    "shapes/measure.py": (
        '"""Areas."""\n\nfrom functools import lru_cache\n\nfrom . import figures\n\n\n'
        "@lru_cache\ndef area_of(figure: figures.Square) -> float:\n    return figure.area()\n"
    ),
    "tests/test_figures.py": (
        "from shapes import Square, area_of\n\n\n"
        "def test_area():\n    assert area_of(Square(2)) == Square(2).area() == 4\n"
    ),
    "setup.py": f"open({EXECUTED!r}, 'w').close()\nraise SystemExit('executed')\n",
    "odd/broken.py": "def f(:\n",
    "odd/deep.py": "x = " + "-" * 50_000 + "1\n",
    "odd/nulls.py": "x = 1\n\0\n",
    "odd/empty.py": "",
    "odd/latin.py": "# -*- coding: latin-1 -*-\nNAME = 'caf\xe9'\n".encode("latin-1"),
    "odd/unknown_coding.py": "# -*- coding: klingon -*-\nx = 1\n",
    "odd/bad_bytes.txt": b"caf\xe9 and \x80\n",
    "odd/wide.txt": "two lines\nin UTF-16\n".encode("utf-16"),
    "odd/picture.png": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
    "odd/old_mac.txt": b"one\rtwo\r",
    "odd/one_line.json": "[" + "1, " * 4000 + "1]\n",
    f"odd/{HOSTILE}": '"""<script>alert(1)</script> `<i>`."""\nX = "</script><script>alert(2)"\n',
    f"odd/{LONG_NAME}": "text\n",
    "odd/fence.md": "# `a` | b\n\n````\n```\n````\n\n[link](javascript:alert(1))\n",
}


def git(root: Path, *arguments: str) -> None:
    settings = ("-c", "user.name=Test", "-c", "user.email=test@example.org")
    subprocess.run(["git", "-C", root, *settings, *arguments], check=True, capture_output=True)


def make_repository(root: Path) -> Path:
    if sys.platform == "win32":
        pytest.skip("Windows has no such names, links and pipes")
    for name, contents in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(contents.encode() if isinstance(contents, str) else contents)
    (root / "odd/loop_a").symlink_to("loop_b")
    (root / "odd/loop_b").symlink_to("loop_a")
    (root / "odd/up").symlink_to("..")
    (root / "odd/gone").symlink_to("nowhere")
    os.mkfifo(root / "odd/pipe")
    with open(root / "odd/huge.txt", "wb") as file:
        for number in range(1000):
            file.write(b"%d %s\n" % (number, b"x" * 5000))
    return root


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """The repository as plain files, with a name that is no text where the system allows it."""
    root = make_repository(tmp_path / "fixture")
    with contextlib.suppress(OSError):  # a file system that wants names in UTF-8
        (root / "odd" / UNDECODABLE).write_text("text\n")
    return root


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The repository under version control, with two commits that change the same files."""
    root = make_repository(tmp_path / "fixture")
    (root / ".gitignore").write_text("ignored.txt\n")
    (root / "ignored.txt").write_text("not part of it\n")
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "all")
    for number in range(2):
        for name in ("shapes/figures.py", "tests/test_figures.py"):
            with open(root / name, "a") as file:
                file.write(f"# change {number}\n")
        git(root, "commit", "-qam", "both")
    return root
