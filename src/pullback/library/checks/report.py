"""What ``opcheck`` found, as a table."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from pullback.library.checks.case import CheckFailedError

__all__ = ["Report", "Row"]

_WIDTH = 100


@dataclass(frozen=True)
class Row:
    """The result of one check: its name, what was tried, and what went wrong."""

    test: str
    result: str  # "ok", "skipped" or "FAILED"
    tried: str
    error: Exception | None = None

    def lines(self, width: int) -> list[str]:
        """The row as text; a failure says why, and how to fix it."""
        start = f"  {self.test:<{width}}  {self.result:<7}  "
        room = max(_WIDTH - len(start), 40)
        tried = textwrap.wrap(self.tried, room) or [""]
        lines = [start + tried[0], *(" " * len(start) + line for line in tried[1:])]
        if self.error is not None:
            lines += _labelled("why: ", _why(self.error))
            if isinstance(self.error, CheckFailedError) and self.error.fix:
                lines += _labelled("fix: ", self.error.fix)
        return lines


def _why(error: Exception) -> str:
    if isinstance(error, CheckFailedError):
        return error.why
    return f"{type(error).__name__}: {error}"


def _labelled(label: str, text: str) -> list[str]:
    indent = " " * 6
    lines = [
        line
        for paragraph in text.splitlines()
        for line in textwrap.wrap(paragraph, _WIDTH - len(indent) - len(label)) or [""]
    ]
    rest = indent + " " * len(label)
    return [indent + label + lines[0], *(rest + line for line in lines[1:])] if lines else []


class Report(dict[str, "str | Exception"]):
    """The results by test: ``"SUCCESS"``, or the exception. Its text is the table."""

    def __init__(self, name: str, rows: list[Row]):
        super().__init__({row.test: row.error or "SUCCESS" for row in rows})
        self.name = name
        self.rows = rows

    @property
    def failures(self) -> list[Row]:
        """The rows of the checks that failed."""
        return [row for row in self.rows if row.error is not None]

    def __str__(self) -> str:
        width = max((len(row.test) for row in self.rows), default=0)
        failed = len(self.failures)
        what = f"{failed} of {len(self.rows)} checks failed" if failed else "all checks passed"
        lines = [f"opcheck({self.name}): {what}"]
        for row in self.rows:
            lines += row.lines(width)
        return "\n".join(lines)

    __repr__ = __str__
