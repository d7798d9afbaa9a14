"""The guide's walk through adding an operator, performed in a copy of the repository.

Every `sh` block of the section is run, in order, and every Python block as a doctest. `make` finds
an environment that stands for the contributor's: this interpreter, with the copy as the package.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import pullback as pb

SECTION = "## Adding an operator, step by step"
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LEFT_OUT = shutil.ignore_patterns(".*_cache", ".git", ".venv*", "__pycache__", "dist", "results")
NEEDED = ("bash", "make", "perl")


def blocks_of(guide: str) -> list[tuple[str, str]]:
    """Language and text of the blocks in the section."""
    section = guide.partition(f"{SECTION}\n")[2].partition("\n## ")[0]
    return BLOCK.findall(section)


@pytest.fixture
def copy(root, tmp_path) -> Path:
    return Path(shutil.copytree(root, tmp_path / "copy", ignore=LEFT_OUT))


@pytest.fixture
def environment(copy, tmp_path) -> dict[str, str]:
    """Variables under which `make` takes this interpreter for the installed environment."""
    folder = tmp_path / "environment"
    (folder / "bin").mkdir(parents=True)
    for name, command in {"python": "", "ruff": "-m ruff "}.items():
        script = folder / "bin" / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {command}"$@"\n', encoding="utf-8")
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
    for stamp in (".stamp-venv", ".stamp-run", ".stamp-dev"):
        (folder / stamp).touch()
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    env.pop("PYTHON", None)
    return {**env, "VENV": str(folder), "PYTHONPATH": str(copy / "src")}


def run(command: list[str], folder: Path, env: dict[str, str]) -> str:
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command[-1]}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.skipif(not all(map(shutil.which, NEEDED)), reason=f"needs {', '.join(NEEDED)}")
def test_the_walk_of_the_guide_adds_an_operator(root, copy, environment, tmp_path):
    blocks = blocks_of((root / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    commands = "\n".join(text for language, text in blocks if language == "sh")
    examples = "\n".join(text for language, text in blocks if language == "python")
    [name] = re.findall(r"^- func: (\w+)\(", commands, re.MULTILINE)
    assert not hasattr(pb, name), "the guide adds an operator that is there already"
    for promise in ("backward()", "func.jvp", "func.vmap", '"meta"', f"{name}_("):
        assert promise in examples

    printed = [
        run(["bash", "-euo", "pipefail", "-c", text], copy, environment)
        for language, text in blocks
        if language == "sh"
    ]
    assert re.search(r"^\d+ passed", printed[-1], re.MULTILINE)
    session = tmp_path / "examples.txt"
    session.write_text(examples, encoding="utf-8")
    run([sys.executable, "-m", "doctest", str(session)], copy, environment)


def test_blocks_of_other_sections_are_left_out():
    guide = f"```sh\na\n```\n{SECTION}\n\n```sh\nb\n```\n```yaml\nc\n```\n## Next\n```sh\nd\n```\n"
    assert blocks_of(guide) == [("sh", "b\n")]
