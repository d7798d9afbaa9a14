"""The repository explains itself: no machine paths, no trackers, no needless imports."""

from __future__ import annotations

import re
import subprocess
import sys

FOREIGN = re.compile(
    r"""(?<![\w.~$}])[/](?:work|tmp|root|home)/  # a path on somebody's machine
    | [.][.]/shared\b
    | \bissues?\ \#?\d | \B\#\d+\b                # a tracker that the reader may not have
    | \b(?:this|that|last|next|previous|earlier|later|another)\ session\b
    """,
    re.VERBOSE | re.IGNORECASE,
)
OPTIONAL = {"hypothesis", "pytest", "scipy", "torch", "yaml"}


def foreign(text: str) -> list[str]:
    """Lines that only make sense to somebody at the author's desk."""
    return [line for line in text.splitlines() if FOREIGN.search(line)]


def loaded_by(statement: str, watched: set[str]) -> set[str]:
    """Which of the watched packages a fresh interpreter has loaded after a statement."""
    script = f"import sys\n{statement}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return watched & set(done.stdout.split())


def test_texts_are_self_contained(texts):
    assert {path: lines for path, text in texts.items() if (lines := foreign(text))} == {}


def test_importing_pullback_loads_no_optional_package():
    assert loaded_by("import pullback", OPTIONAL) == set()


def test_foreign_lines_are_caught():
    slash, number = "/", "#" + "12"
    for line in (
        f"see {slash}work{slash}main",
        f"open('{slash}tmp{slash}x')",
        f"..{slash}shared",
        f"fixes {number}",
        "as issue " + "7 says",
        "decided in an earlier " + "session",
    ):
        assert foreign(f"fine\n{line}\n") == [line]
    assert foreign('scope="session"  # one per session\nhttps://x.org/tmp/\n$HOME/work/\n') == []


def test_a_loaded_package_is_seen():
    assert loaded_by("import json", {"json", "yaml"}) == {"json"}
