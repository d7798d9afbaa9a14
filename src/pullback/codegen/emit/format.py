"""Formats generated source with ruff, so that it reads like source written by hand.

Ruff is a tool of development. Where it is missing, the source of a user's own tables is left as the
emitters laid it out, which is the same program. The built-in source is committed and compared to
the letter, so that the command line writes or checks it with ruff only.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path, PurePosixPath

from pullback.codegen.emit.source import WIDTH
from pullback.errors import CodegenError

__all__ = ["can_format", "format_files"]


def can_format() -> bool:
    """Whether ruff is installed."""
    return find_spec("ruff") is not None


def format_files(files: Mapping[str, str]) -> dict[str, str]:
    """The same files, formatted; those that are no Python are left alone."""
    if not can_format():
        return dict(files)
    source = {name: text for name, text in files.items() if name.endswith((".py", ".pyi"))}
    with tempfile.TemporaryDirectory() as folder:
        # Numbered, because a name may lead out of the folder.
        paths = {
            name: Path(folder) / f"{place}{PurePosixPath(name).suffix}"
            for place, name in enumerate(source)
        }
        for name, path in paths.items():
            path.write_text(source[name], encoding="utf-8")
        _run_ruff(folder)
        return {**files, **{name: path.read_text(encoding="utf-8") for name, path in paths.items()}}


def _run_ruff(folder: str) -> None:
    command = [sys.executable, "-m", "ruff", "format", "--isolated", "--quiet"]
    command += ["--line-length", str(WIDTH), folder]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CodegenError(f"ruff could not format the generated source: {done.stderr.strip()}")
