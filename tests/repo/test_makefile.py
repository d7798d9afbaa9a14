"""The Makefile keeps no environment of another Python than the one that is asked for."""

from __future__ import annotations

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
