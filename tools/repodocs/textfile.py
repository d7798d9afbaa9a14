"""Reading one file: its kind, its text and what prevents a text, without an exception.

A file is a symbolic link, special (socket, pipe, device: never opened), unreadable, binary or text.
Text is UTF-8, UTF-16 with its mark, or what a Python file declares (PEP 263); bytes that fit none
of these are read as Latin-1, and the page says so.
"""

from __future__ import annotations

import hashlib
import io
import mimetypes
import os
import stat
import tokenize
from pathlib import Path
from typing import NamedTuple

from tools.repodocs.records import FileRecord, empty_record

HUGE_BYTES = 4_000_000  # beyond it only the beginning is read as text
HEAD_BYTES = 100_000
HEAD_LINES = 500
SNIFFED_BYTES = 8192
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")

LANGUAGES = {
    ".py": "Python", ".pyi": "Python", ".md": "Markdown", ".rst": "reStructuredText",
    ".txt": "Text", ".yaml": "YAML", ".yml": "YAML", ".toml": "TOML", ".json": "JSON",
    ".cfg": "INI", ".ini": "INI", ".sh": "Shell", ".js": "JavaScript", ".ts": "TypeScript",
    ".css": "CSS", ".html": "HTML", ".c": "C", ".h": "C", ".cpp": "C++", ".hpp": "C++",
    ".cc": "C++", ".cu": "CUDA", ".cuh": "CUDA", ".rs": "Rust", ".go": "Go", ".java": "Java",
    ".cmake": "CMake", ".ipynb": "Jupyter notebook", ".svg": "SVG", ".xml": "XML",
    ".csv": "CSV", ".sql": "SQL", ".cff": "YAML",
}  # fmt: skip
# Python's table of types differs between versions and systems.
MEDIA_TYPES = {
    "Python": "text/x-python",
    "Markdown": "text/markdown",
    "reStructuredText": "text/x-rst",
    "YAML": "application/yaml",
    "TOML": "application/toml",
    "Shell": "application/x-sh",
    "JavaScript": "text/javascript",
    "TypeScript": "text/typescript",
}
NAMED = {"Makefile": "Makefile", "Dockerfile": "Dockerfile", "CMakeLists.txt": "CMake"}
PROSE = {"Markdown", "reStructuredText", "Text"}


class Contents(NamedTuple):
    """The record of a file with its metadata, and its text: empty where there is none."""

    record: FileRecord
    text: str


def read_contents(root: Path, path: str) -> Contents:
    """Read one file of a repository; whatever is wrong with it becomes the record's problem."""
    full = root / path
    try:
        status = os.lstat(full)
        if stat.S_ISLNK(status.st_mode):
            return Contents(_link_record(root, path), "")
        if not stat.S_ISREG(status.st_mode):
            record = empty_record(path, "special", _special_sentence(status.st_mode))
            return Contents(record, "")
        with open(full, "rb") as file:
            data = file.read(HUGE_BYTES)
            digest = hashlib.sha256(data)
            while chunk := file.read(1 << 20):
                digest.update(chunk)
    except OSError as error:
        problem = f"The file cannot be read: {error.strerror or type(error).__name__}."
        return Contents(empty_record(path, "unreadable", problem), "")
    record = empty_record(path, "text")
    record["size"], record["digest"] = status.st_size, digest.hexdigest()
    record["language"] = language_of(path, data)
    guessed = mimetypes.MimeTypes().guess_type(path)[0] or ""
    record["media_type"] = MEDIA_TYPES.get(record["language"], guessed)
    return Contents(record, _text_of(record, data))


def language_of(path: str, data: bytes = b"") -> str:
    """Return the language by the file's name, or by the interpreter in its first line."""
    name = path.rpartition("/")[2]
    language = NAMED.get(name) or LANGUAGES.get(os.path.splitext(name)[1].lower(), "")
    if not language and data.startswith(b"#!"):
        first = data.split(b"\n", 1)[0]
        language = "Python" if b"python" in first else "Shell" if b"sh" in first else ""
    return language


def _link_record(root: Path, path: str) -> FileRecord:
    target = os.readlink(root / path)
    try:
        (root / path).resolve(strict=True)
        state = "It is not followed."
    except (OSError, RuntimeError) as error:
        is_loop = isinstance(error, RuntimeError) or getattr(error, "errno", 0) == 40
        state = "The links form a loop." if is_loop else "Its target does not exist."
    record = empty_record(path, "symlink", f"Symbolic link to {target}. {state}")
    record["digest"] = hashlib.sha256(os.fsencode(target)).hexdigest()
    return record


def _special_sentence(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "A folder that belongs to another repository (a submodule)."
    return "A special file (socket, pipe or device), which is not opened."


def _text_of(record: FileRecord, data: bytes) -> str:
    """Decode the bytes of a file and complete its record; empty for a binary file."""
    head = data[:SNIFFED_BYTES]
    if b"\0" in head and not head.startswith(UTF16_MARKS):
        record["kind"] = "binary"
        record["problem"] = "A binary file: it has no source to show."
        return ""
    if record["size"] > HUGE_BYTES:
        record["truncated"] = True
        record["problem"] = (
            f"The file has {record['size']:,} bytes: only its first {HEAD_LINES} lines are shown,"
            " and it is not analysed."
        )
        data = data[:HEAD_BYTES]
        data = data[: data.rfind(b"\n") + 1] or data
    text, record["encoding"] = _decode(record, data)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if record["truncated"]:
        text = "\n".join(text.split("\n")[:HEAD_LINES])
    record["lines"] = text.count("\n") + bool(text and not text.endswith("\n"))
    if record["language"] == "Python":
        record["kind"] = "python"
    elif record["language"] in PROSE:
        record["kind"] = "prose"
    return text


def _decode(record: FileRecord, data: bytes) -> tuple[str, str]:
    declared = "utf-8-sig"
    if data.startswith(UTF16_MARKS):
        declared = "utf-16"
    elif record["language"] == "Python":
        try:
            declared = tokenize.detect_encoding(io.BytesIO(data).readline)[0]
        except (SyntaxError, ValueError) as error:
            record["problem"] = f"The declared encoding is wrong: {error}."
    try:
        text = data.decode(declared)
        return text, "utf-8" if declared == "utf-8-sig" else declared
    except (UnicodeDecodeError, LookupError):
        if not record["problem"]:
            name = declared.removesuffix("-sig")
            record["problem"] = f"The bytes are not valid {name}; they are read as Latin-1."
        return data.decode("latin-1"), "latin-1"
