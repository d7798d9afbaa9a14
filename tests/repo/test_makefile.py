"""The Makefile: which Python is used, the lowest versions, and its help."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

import pytest


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
@pytest.mark.parametrize(("version", "kept"), [("3.0.1", False), ("", True)])
def test_an_environment_of_another_version_is_refused(root, tmp_path, version, kept):
    python = tmp_path / "bin/python"
    python.parent.mkdir()
    answer = f"echo {version}" if version else f'exec "{sys.executable}" "$@"'
    python.write_text(f"#!/bin/sh\n{answer}\n", encoding="utf-8")
    python.chmod(0o755)
    for stamp in (".stamp-venv", ".stamp-run", ".stamp-dev"):
        (tmp_path / stamp).touch()
    command = ["make", f"VENV={tmp_path}", f"PYTHON={sys.executable}", f"{tmp_path}/.stamp-dev"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) is kept
    assert ("has Python 3.0.1" in done.stderr) is not kept


def _run(root, *command):
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)


INTERNAL = {"same-python"}  # a prerequisite of others


def targets_of(makefile: str) -> set[str]:
    """The commands of a Makefile: targets that are no files."""
    return set(re.findall(r"^([A-Za-z][\w-]*):(?!=)", makefile, re.MULTILINE))


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_the_help_names_every_command(root):
    text = (root / "Makefile").read_text(encoding="utf-8")
    phony = re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE)
    assert phony is not None
    commands = targets_of(text) - INTERNAL
    assert {*phony[1].split()} - INTERNAL == commands
    listed = re.findall(r"^make ([a-z-]+) +\S", _run(root, "make", "help").stdout, re.MULTILINE)
    assert sorted(listed) == sorted(commands)


def test_the_guide_names_every_command(root):
    commands = targets_of((root / "Makefile").read_text(encoding="utf-8")) - INTERNAL
    guide = (root / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert [name for name in sorted(commands) if f"`make {name}" not in guide] == []
    assert "`make test PYTHON=python3.13`" in guide


def test_targets_are_found():
    assert targets_of("X := 1\na:\nlong-name: a  ## help\n$(V)/.stamp: a\n.PHONY: a\n") == {
        "a",
        "long-name",
    }


def test_the_lowest_versions_are_those_of_the_project(root):
    done = _run(root, sys.executable, "scripts/lowest_versions.py")
    project = (root / "pyproject.toml").read_text(encoding="utf-8")
    pins = dict(pin.split("==") for pin in done.stdout.split())
    assert list(pins) == ["numpy", "scipy"]
    for name, version in pins.items():
        assert f'"{name}>={version.removesuffix(".0")}"' in project


@pytest.mark.skipif(shutil.which("sh") is None, reason="needs a shell")
def test_a_python_is_found_by_name_and_by_path(root):
    for wanted in (sys.executable, "python3"):
        found = _run(root, "sh", "scripts/find_python.sh", wanted)
        assert found.stdout.strip() == wanted, found.stderr
    missing = _run(root, "sh", "scripts/find_python.sh", "python3.99")
    assert missing.returncode == 1
    assert "'python3.99' does not run" in missing.stderr


def test_a_sample_is_always_the_same_part(root):
    command = (sys.executable, "-m", "pytest", "--co", "-q", "-p", "no:cacheprovider")
    chosen = [
        {line for line in _run(root, *command, *args).stdout.splitlines() if "::" in line}
        for args in (("tests/repo",), ("tests/repo", "--sample", "3"), ("tests/repo", "--sample=3"))
    ]
    assert chosen[1] == chosen[2] < chosen[0]
    assert 0 < len(chosen[1]) < len(chosen[0]) / 2
