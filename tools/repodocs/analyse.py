"""Analysis of many files in a worker process: records to the cache, short summaries back.

A record depends on the bytes of its file and on its module name only; it is stored under a key
made of both, and an unchanged file is not analysed again. The summary has what the links between
files are made from.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TypedDict

from tools.repodocs.prose import analyse_prose, first_sentence, python_code
from tools.repodocs.python_source import analyse_python
from tools.repodocs.records import (
    TOOL_VERSION,
    FileRecord,
    ImportRecord,
    Note,
    Reference,
    empty_record,
)
from tools.repodocs.textfile import read_contents

SCANNER_SECONDS = 300


class Item(NamedTuple):
    """A file to analyse: path from the root, dotted module name, and whether it is a package."""

    path: str
    module: str
    is_package: bool


class Name(NamedTuple):
    """A definition as far as links need it."""

    kind: str
    qualname: str
    line: int


class Summary(NamedTuple):
    """What links between files are made from; kept in memory for every file."""

    path: str
    key: str
    kind: str
    language: str
    size: int
    lines: int
    problem: str
    purpose: str
    names: tuple[Name, ...]
    imports: tuple[ImportRecord, ...]
    references: tuple[Reference, ...]
    attributes: frozenset[str]


class _Stored(TypedDict):
    record: FileRecord


def summarize(record: FileRecord, key: str) -> Summary:
    """Return the short form of a record."""
    return Summary(
        path=record["path"],
        key=key,
        kind=record["kind"],
        language=record["language"],
        size=record["size"],
        lines=record["lines"],
        problem=record["problem"],
        purpose=record["purpose"],
        names=tuple(Name(d["kind"], d["qualname"], d["line"]) for d in record["definitions"]),
        imports=tuple(record["imports"]),
        references=tuple(record["references"]),
        attributes=frozenset(record["attributes"]),
    )


def record_path(cache: Path, key: str) -> Path:
    """Return the place of a record in the cache."""
    return cache / key[:2] / f"{key}.json"


def load_record(cache: Path, key: str) -> FileRecord | None:
    """Return a record of the cache, or None where it is missing or damaged."""
    try:
        stored: _Stored = json.loads(record_path(cache, key).read_text(encoding="ascii"))
        record = stored["record"]
        return record if record.keys() == empty_record("", "").keys() else None
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return None


def store_record(cache: Path, key: str, record: FileRecord) -> None:
    """Write a record to the cache."""
    path = record_path(cache, key)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"record": record}), encoding="ascii")


def analyse_files(root: Path, cache: Path, items: Sequence[Item]) -> list[Summary]:
    """Analyse files, or read their records from the cache; runs in a worker process."""
    summaries: list[Summary] = []
    fresh: list[tuple[str, FileRecord]] = []
    for item in items:
        record, text = read_contents(root, item.path)
        key = record_key(record, item)
        stored = load_record(cache, key)
        if stored is not None:
            summaries.append(summarize(stored, key))
            continue
        analyse_text(record, text, item)
        fresh.append((key, record))
    scan_security(root, [r for _, r in fresh if r["kind"] == "python" and not r["problem"]])
    for key, record in fresh:
        store_record(cache, key, record)
        summaries.append(summarize(record, key))
    return summaries


def record_key(record: FileRecord, item: Item) -> str:
    """Return the key of a file's record: its bytes, its name and the tool's version."""
    parts = (TOOL_VERSION, record["digest"], record["kind"], record["problem"], *map(str, item))
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()


def analyse_text(record: FileRecord, text: str, item: Item) -> None:
    """Fill the record of a file by its kind."""
    if record["truncated"]:
        return
    if record["kind"] == "python":
        analyse_python(record, text, item.module, item.is_package)
        record["purpose"] = first_sentence(record["doc"])
    elif record["kind"] == "prose":
        analyse_prose(record, text)
        record["references"] = _references_in_prose(text)
    elif record["kind"] == "text":
        record["purpose"] = _comment_sentence(text)


def _references_in_prose(text: str) -> list[Reference]:
    """Return the uses of imported names in the code blocks of a document.

    Imports of one block serve the following ones, as in a document that is run from its beginning.
    """
    found: dict[str, Reference] = {}
    preamble: list[str] = []
    for start, block in python_code(text):
        code = "\n".join([*preamble, textwrap.dedent(block)])
        part = empty_record("", "python")
        analyse_python(part, code, "", False)
        if part["problem"]:
            continue
        for reference in part["references"]:
            line = reference["line"] - len(preamble)
            if line > 0:
                entry = Reference(
                    target=reference["target"], line=start + line - 1, text=reference["text"]
                )
                found.setdefault(reference["target"], entry)
        preamble += [_as_source(s) for s in part["imports"] if s["line"] > len(preamble)]
    return list(found.values())


def _as_source(statement: ImportRecord) -> str:
    first = statement["names"][0]
    if not first["name"]:
        return f"import {statement['module']}" + (f" as {first['alias']}" if first["alias"] else "")
    names = [n["name"] + (f" as {n['alias']}" if n["alias"] else "") for n in statement["names"]]
    return f"from {statement['module'] or '.'} import {', '.join(names)}"


def _comment_sentence(text: str) -> str:
    """Return the first sentence of the comment at the beginning of a file, if there is one."""
    words: list[str] = []
    for line in text.split("\n")[:30]:
        stripped = line.strip()
        if stripped.startswith("#!") or (not stripped and not words):
            continue
        if not stripped.startswith(("#", "//", ";", "/*", "--", "<!--")):
            break
        words.append(stripped.strip("#/;*-<!> "))
    return first_sentence(" ".join(words))


# --- security -------------------------------------------------------------------------------------


def scan_security(root: Path, records: Sequence[FileRecord]) -> None:
    """Add the findings of ruff's rules ``S`` (flake8-bandit) to the records of Python files.

    The repository's own configuration is not read. A file on which the scanner fails is found by
    halving the list, and stays without the scanner's name, as all files do without ruff.
    """
    ruff = _find_ruff()
    if not records or not ruff:
        return
    paths = [os.path.abspath(root / record["path"]) for record in records]
    findings = _run_ruff(ruff, paths)
    if findings is None:
        half = len(records) // 2
        if half:
            scan_security(root, records[:half])
            scan_security(root, records[half:])
        return
    for record, path in zip(records, paths, strict=True):
        record["scanner"] = "ruff, rules S (flake8-bandit)"
        record["security"] = findings.get(path, [])


def _run_ruff(ruff: str, paths: Sequence[str]) -> dict[str, list[Note]] | None:
    """Return the findings by path, or None where the scanner failed."""
    command = [ruff, "check", "--isolated", "--no-cache", "--select", "S", "--output-format=json"]
    try:
        done = subprocess.run(
            [*command, "--exit-zero", "--quiet", "--", *paths],
            capture_output=True,
            timeout=SCANNER_SECONDS,
            cwd=os.path.dirname(ruff),  # not in the repository
        )
        findings = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    notes: dict[str, list[Note]] = {}
    for finding in findings:
        if str(finding.get("code") or "").startswith("S"):
            line = finding["location"]["row"]
            note = Note(name=finding["code"], detail=finding["message"], line=line)
            notes.setdefault(finding["filename"], []).append(note)
    return notes


def _find_ruff() -> str | None:
    beside = Path(sys.executable).parent / "ruff"
    return str(beside) if beside.exists() else shutil.which("ruff")
