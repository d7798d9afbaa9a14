"""Results of ``opcheck``, as a table."""

from __future__ import annotations

import textwrap
import traceback
from dataclasses import dataclass
from pathlib import Path

from pullback.errors import message_of
from pullback.inspector.html_repr import table_html
from pullback.library.checks.case import CheckFailedError

__all__ = ["Report", "Row"]

_WIDTH = 100
_OURS = str(Path(__file__).resolve().parents[2])


@dataclass(frozen=True)
class Row:
    """The result of one check: its name, what was tried, and what went wrong."""

    test: str
    result: str  # "ok", "skipped" or "FAILED"
    tried: str
    error: Exception | None = None

    def lines(self, width: int, same_as: str = "") -> list[str]:
        """The row as text; a failure says why, and how to fix it, unless `same_as` did."""
        start = f"  {self.test:<{width}}  {self.result:<7}  "
        room = max(_WIDTH - len(start), 40)
        tried = textwrap.wrap(self.tried, room) or [""]
        lines = [start + tried[0], *(" " * len(start) + line for line in tried[1:])]
        if same_as:
            lines += _labelled("why: ", f"the same error as in {same_as}.")
        elif self.error is not None:
            lines += _labelled("why: ", self.why)
            fix = _fix(self.error)
            lines += _labelled("fix: ", fix) if fix else []
        return lines

    @property
    def why(self) -> str:
        """The failures; empty if there are none."""
        if isinstance(self.error, CheckFailedError):
            return self.error.why
        return (
            "" if self.error is None else f"{type(self.error).__name__}: {message_of(self.error)}"
        )


def _fix(error: Exception) -> str:
    if isinstance(error, CheckFailedError):
        return error.fix
    places = [
        f"{frame.filename}:{frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith((_OURS, "<"))
    ]
    return f"see {places[-1]}, where it was raised or led to." if places else ""


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

    def _repr_html_(self) -> str:
        rows = [(row.test, row.result, row.tried, row.why) for row in self.rows]
        return table_html(("check", "result", "tried", "why"), rows, f"opcheck({self.name})")

    def __str__(self) -> str:
        width = max((len(row.test) for row in self.rows), default=0)
        failed = len(self.failures)
        what = f"{failed} of {len(self.rows)} checks failed" if failed else "all checks passed"
        lines = [f"opcheck({self.name}): {what}"]
        reported: dict[str, str] = {}
        for row in self.rows:
            words = row.why.removeprefix(f"{type(row.error).__name__}: ")
            lines += row.lines(width, reported.get(words, ""))
            if words:
                reported.setdefault(words, row.test)
        return "\n".join(lines)

    __repr__ = __str__
