"""Other revisions of Pullback as peers: ``pullback@HEAD~1`` is the tree of that commit.

The workloads, the harness and the installed libraries are the present ones; only the package is
imported from a worktree of the revision. Both trees are measured in one run, in turn, so that a
ratio shows the change and not the state of the machine.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

from benchmarks.peers import REFERENCE, UnavailableError

__all__ = ["ROOT", "check_source", "checked_out", "peer_of", "source_path", "without_revision"]

ROOT = Path(__file__).parents[2]
_MARK = "@"
_SOURCE = "PULLBACK_BENCH_SOURCE"


def peer_of(revision: str) -> str:
    """The name of a revision among the peers."""
    return f"{REFERENCE}{_MARK}{revision}"


def without_revision(peer: str) -> str:
    """The name under which a peer's module is found."""
    return peer.partition(_MARK)[0]


def source_path(source: Path | None) -> dict[str, str]:
    """Environment variables that make a process import Pullback from a tree; None is this one."""
    folder, before = str((source or ROOT) / "src"), os.environ.get("PYTHONPATH")
    paths = [folder, *([before] if before else [])]
    return {"PYTHONPATH": os.pathsep.join(paths), _SOURCE: folder}


def check_source(module: ModuleType) -> None:
    """Raises if Pullback was not imported from the tree that this process is to measure."""
    wanted, found = os.environ.get(_SOURCE), module.__file__
    if wanted and found and not Path(found).resolve().is_relative_to(Path(wanted).resolve()):
        raise UnavailableError(f"imported from {found}, but {wanted} is to be measured")


@contextmanager
def checked_out(revision: str | None) -> Iterator[dict[str, Path]]:
    """A block with a worktree of a revision: its peer and folder; nothing for None."""
    if revision is None:
        yield {}
        return
    found = _git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    if found.returncode:
        raise SystemExit(f"--against: '{revision}' is no commit of this repository")
    with TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        made = _git("worktree", "add", "--quiet", "--detach", str(tree), found.stdout.strip())
        if made.returncode:
            raise SystemExit(f"--against: git cannot make a worktree: {made.stderr.strip()}")
        try:
            yield {peer_of(revision): tree}
        finally:
            _git("worktree", "remove", "--force", str(tree))


def _git(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
