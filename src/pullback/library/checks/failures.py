"""The failures file of ``generate_opcheck_tests``: which generated tests are known to fail.

JSON, made to be read and reviewed: sorted keys, two blanks, one entry for each operator and test.
A file that does not exist, or is empty, lists nothing.
"""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import Any, Self

from pullback.errors import OpCheckError

__all__ = ["STATUSES", "FailuresDict"]

STATUSES = ("xfail", "skip", "xsuccess")
_DESCRIPTION = (
    "Generated tests of operators that are known to fail (xfail) or are left out (skip). Run the "
    "tests with PULLBACK_OPCHECK_ACCEPT=1 to bring this file up to date."
)
_VERSION = 1


class FailuresDict:
    """The expected status of each operator in each test; ``"xsuccess"`` unless listed."""

    def __init__(self, path: Path | None, data: dict[str, dict[str, dict[str, str]]]):
        self.path = path
        self.data = data

    @classmethod
    def load(cls, path: str | Path | None) -> Self:
        """Reads a file, which need not exist."""
        if path is None:
            return cls(None, {})
        file = Path(path)
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        if not text.strip():
            return cls(file, {})
        content = json.loads(text)
        if not isinstance(content, dict) or content.get("_version") != _VERSION:
            raise OpCheckError(f"{file}: expected a failures file with _version {_VERSION}")
        made = cls(file, content.get("data", {}))
        expected = made.text(content.get("_description", _DESCRIPTION))
        if text != expected:
            change = "".join(
                difflib.unified_diff(
                    text.splitlines(keepends=True),
                    expected.splitlines(keepends=True),
                    "is",
                    "should be",
                )
            )
            raise OpCheckError(f"{file}: the failures file is not formatted as expected:\n{change}")
        return made

    def text(self, description: str = _DESCRIPTION) -> str:
        """The content of the file."""
        content = {"_description": description, "_version": _VERSION, "data": self.data}
        return json.dumps(content, indent=2, sort_keys=True) + "\n"

    def save(self) -> None:
        """Writes the file, and its folder where there is none."""
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(self.text(), encoding="utf-8")

    def status(self, op: str, test: str) -> str:
        """Expected outcome of an operator in a test."""
        return self.data.get(op, {}).get(test, {}).get("status", "xsuccess")

    def set_status(self, op: str, test: str, status: str, comment: str = "") -> None:
        """Notes what to expect; a success needs no entry."""
        if status == "xsuccess":
            self.data.get(op, {}).pop(test, None)
            if not self.data.get(op, True):
                del self.data[op]
        else:
            self.data.setdefault(op, {})[test] = {"comment": comment, "status": status}

    def check(self, owner: str, methods: dict[str, Any], tests: tuple[str, ...]) -> None:
        """Refuses entries that no generated test of the class `owner` can be meant by."""
        for op, entries in self.data.items():
            for name, entry in entries.items():
                where = f"{self.path}: the entry of {op} for {name!r}"
                if set(entry) != {"comment", "status"}:
                    raise OpCheckError(
                        f"{where} should have the keys 'comment' and 'status', not {sorted(entry)}"
                    )
                if entry["status"] not in STATUSES:
                    raise OpCheckError(
                        f"{where} has the status {entry['status']!r}; expected one of "
                        f"{', '.join(STATUSES)}"
                    )
                cls, _, test = name.partition(".")
                util, separator, base = test.partition("__")
                if not separator or util not in tests:
                    raise OpCheckError(
                        f"{where} should start with a test of opcheck, as in "
                        f"'{cls}.test_schema__test_mine'; those are {', '.join(tests)}"
                    )
                if cls == owner and base not in methods:
                    raise OpCheckError(f"{where} names {base!r}, which {owner} does not have")
