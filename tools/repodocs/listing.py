"""The files of a repository, without following links and without running anything of it.

Git gives the list where the folder is a checkout: tracked files, and new ones that it does not
ignore. Elsewhere the folder is walked. Symbolic links are never followed, so that a loop of links
is only a file with a page of its own.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

SKIPPED_FOLDERS = {
    ".git",
    ".hg",
    ".hypothesis",
    ".mypy_cache",
    ".nox",
    ".pytest_cache",
    ".repodocs",
    ".ruff_cache",
    ".svn",
    ".tox",
    ".venv",
    "__pycache__",
    "node_modules",
}
GIT_SECONDS = 120
# A repository's own configuration may name programs for these; none of them is to run.
GIT_SETTINGS = (
    "core.fsmonitor=false",
    "core.hooksPath=" + os.devnull,
    "core.pager=cat",
    "log.showSignature=false",
    "protocol.allow=never",
    "core.quotePath=false",
)


def run_git(root: Path, *arguments: str) -> bytes | None:
    """Return the output of a git command that only reads, or None where it fails."""
    settings = [part for setting in GIT_SETTINGS for part in ("-c", setting)]
    environment = os.environ | {
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_TERMINAL_PROMPT": "0",
    }
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *settings, *arguments],
            capture_output=True,
            env=environment,
            timeout=GIT_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def list_files(root: Path, excluded: Path | None = None) -> list[str]:
    """Return the paths of all files below a folder, relative to it, sorted.

    >>> from tools.repodocs.listing import list_files
    >>> "listing.py" in list_files(Path(__file__).parent)
    True
    """
    listed = run_git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    if listed:
        found = {os.fsdecode(name) for name in listed.split(b"\0") if name}
        paths = [path for path in found if os.path.lexists(root / path)]
    else:
        paths = list(_walk(root))
    left_out = _relative(excluded, root)
    if left_out is not None:
        paths = [path for path in paths if path != left_out and not path.startswith(f"{left_out}/")]
    return sorted(paths)


def _relative(path: Path | None, root: Path) -> str | None:
    if path is None or not path.resolve().is_relative_to(root.resolve()):
        return None
    return path.resolve().relative_to(root.resolve()).as_posix()


def _walk(root: Path) -> Iterator[str]:
    folders = [""]
    while folders:
        folder = folders.pop()
        try:
            entries = list(os.scandir(root / folder))
        except OSError:
            continue  # a folder that may not be read has no files that could be named
        for entry in entries:
            path = f"{folder}/{entry.name}".lstrip("/")
            if not entry.is_dir(follow_symlinks=False):
                yield path
            elif entry.name not in SKIPPED_FOLDERS:
                folders.append(path)


def co_changes(
    root: Path, known: set[str], commits: int = 2000
) -> dict[str, list[tuple[str, int]]]:
    """Return for each file those that changed in the same commits, most often first.

    Commits with more than 40 files say nothing about pairs and are left out, and so are pairs that
    changed together once.
    """
    log = run_git(
        root, "log", "--relative", "--name-only", "--no-renames", "--no-ext-diff", "--no-textconv",
        "-z", f"--max-count={commits}", "--no-merges", "--format=%x01",
    )  # fmt: skip
    pairs: dict[str, dict[str, int]] = {}
    for commit in (log or b"").split(b"\x01"):
        names = {os.fsdecode(name.strip(b"\n")) for name in commit.split(b"\0")} & known
        if not 1 < len(names) <= 40:
            continue
        for name in names:
            row = pairs.setdefault(name, {})
            for other in names - {name}:
                row[other] = row.get(other, 0) + 1
    result = {}
    for name, row in pairs.items():
        often = sorted((-count, other) for other, count in row.items() if count > 1)
        if often:
            result[name] = [(other, -count) for count, other in often[:8]]
    return result
