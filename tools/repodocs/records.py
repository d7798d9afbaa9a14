"""Data that the analysis of one file produces: plain dictionaries, stored as JSON.

JSON and not pickle: the output folder may lie in a scanned repository, and reading a pickle could
run code. The fields are typed, so that a misspelled key is an error of the type checker.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TypedDict


def _digest_of_tool() -> str:
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*")):
        if path.suffix in (".py", ".css", ".js", ".txt"):
            digest.update(path.read_bytes())
    return digest.hexdigest()


# Part of every fingerprint: pages are made again after a change of the tool.
TOOL_VERSION = _digest_of_tool()


class Definition(TypedDict):
    """A class, function, method or constant of a Python file."""

    kind: str  # class, function, method, constant
    name: str
    qualname: str
    anchor: str  # of its section; unique in the file, also for overloads
    line: int
    end: int
    signature: str  # of functions: arguments and result; of constants: the value
    doc: str
    bases: list[str]
    decorators: list[str]


class ImportedName(TypedDict):
    """One name of an import statement; the name is empty for ``import module``."""

    name: str
    alias: str
    line: int


class ImportRecord(TypedDict):
    """One import statement with the absolute name of its module."""

    module: str
    names: list[ImportedName]
    line: int
    typing_only: bool
    in_function: bool


class Reference(TypedDict):
    """First use of an imported name in a file: its absolute dotted name, line and source line."""

    target: str
    line: int
    text: str


class Note(TypedDict):
    """Something that the analysis found in a line: a pattern, a cost, a finding of the scanner."""

    name: str
    detail: str
    line: int


class Heading(TypedDict):
    """A heading of a prose file."""

    level: int
    text: str
    line: int


class FileRecord(TypedDict):
    """Everything that the analysis of one file found; independent of all other files."""

    path: str
    kind: str  # python, prose, text, binary, symlink, special, unreadable
    problem: str  # a sentence for the reader, or empty
    size: int
    lines: int
    media_type: str
    language: str
    encoding: str
    digest: str
    truncated: bool  # the page has only the beginning of the source
    doc: str
    purpose: str
    definitions: list[Definition]
    imports: list[ImportRecord]
    references: list[Reference]
    attributes: list[str]
    identifiers: dict[str, int]
    terms: dict[str, list[int]]
    patterns: list[Note]
    performance: list[Note]
    security: list[Note]
    scanner: str
    headings: list[Heading]


def empty_record(path: str, kind: str, problem: str = "") -> FileRecord:
    """Return a record without findings."""
    return FileRecord(
        path=path,
        kind=kind,
        problem=problem,
        size=0,
        lines=0,
        media_type="",
        language="",
        encoding="",
        digest="",
        truncated=False,
        doc="",
        purpose="",
        definitions=[],
        imports=[],
        references=[],
        attributes=[],
        identifiers={},
        terms={},
        patterns=[],
        performance=[],
        security=[],
        scanner="",
        headings=[],
    )
