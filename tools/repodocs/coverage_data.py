"""Which tests run which files, from a coverage file with contexts.

Reads the database that coverage.py writes (``.coverage``, with ``--cov-context=test``) and its JSON
report (``coverage json --show-contexts``), both without coverage.py.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

SQLITE_MARK = b"SQLite format 3\0"
QUERY = """
    select distinct file.path, context.context from {table}
    join file on file.id = {table}.file_id join context on context.id = {table}.context_id
"""


def load_coverage(path: Path, root: Path) -> dict[str, list[str]]:
    """Return the names of the tests that ran lines of each file, by path from the root."""
    try:
        with open(path, "rb") as file:
            is_database = file.read(len(SQLITE_MARK)) == SQLITE_MARK
        pairs = _from_database(path) if is_database else _from_report(path)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, sqlite3.Error) as error:
        raise ValueError(f"{path} is not a coverage file with contexts: {error}") from error
    found: dict[str, set[str]] = {}
    for name, context in pairs:
        full = Path(name) if Path(name).is_absolute() else root / name
        if context and full.is_relative_to(root):
            found.setdefault(full.relative_to(root).as_posix(), set()).add(context.split("|")[0])
    return {name: sorted(contexts) for name, contexts in found.items()}


def _from_database(path: Path) -> list[tuple[str, str]]:
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return [
            row
            for table in ("line_bits", "arc")
            for row in connection.execute(QUERY.format(table=table))
        ]
    finally:
        connection.close()


def _from_report(path: Path) -> list[tuple[str, str]]:
    report = json.loads(path.read_text(encoding="utf-8"))
    return [
        (name, context)
        for name, entry in report["files"].items()
        for contexts in entry.get("contexts", {}).values()
        for context in contexts
    ]
