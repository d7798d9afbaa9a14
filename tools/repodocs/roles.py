"""The role of a folder: a sentence that the repository itself has about it.

In this order: the row of a table or list in an architecture document that names the folder, the
docstring of its ``__init__.py``, its README. A folder without any of these has no sentence.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tools.repodocs.analyse import Summary
from tools.repodocs.textfile import read_contents

ARCHITECTURE = re.compile(r"(?:.*/)?(?:architecture|overview|design)[\w-]*\.(?:md|rst|txt)\Z", re.I)
MENTION = re.compile(r"`([\w./-]+)`")
ROW = re.compile(r"\s*\|(.*?)\|(.*?)\|")
ITEM = re.compile(r"\s*[-*]\s+((?:`[\w./-]+`(?:,| and)?\s*)+)[:\u2013\u2014-]\s*(.*)")


class Role(NamedTuple):
    """What a document says about a folder or file: the sentence, the document and its line."""

    text: str
    source: str
    line: int


def find_roles(root: Path, files: dict[str, Summary]) -> dict[str, Role]:
    """Return the role of each folder, and of each file that an architecture document names."""
    roles: dict[str, Role] = {}
    for path, summary in files.items():
        folder, _, name = path.rpartition("/")
        if name.lower().startswith("readme.") and summary.purpose:
            roles.setdefault(folder, Role(summary.purpose, path, 1))
    for path, summary in files.items():
        folder, _, name = path.rpartition("/")
        if name == "__init__.py" and summary.purpose:
            roles[folder] = Role(summary.purpose, path, 1)
    places = {posixpath.dirname(path) for path in files} | set(files)
    for path in files:
        if ARCHITECTURE.match(path):
            text = read_contents(root, path).text
            for mentioned, role in _mentions(path, text.split("\n")):
                place = _place(mentioned, path, places)
                if place is not None and roles.get(place, role).source != path:
                    roles[place] = role
                elif place is not None:
                    roles.setdefault(place, role)
    return roles


def _mentions(path: str, lines: list[str]) -> Iterable[tuple[str, Role]]:
    for number, line in enumerate(lines, 1):
        found = ROW.match(line) or ITEM.match(line)
        if not found:
            continue
        sentence = found.group(2).strip().replace("`", "")
        for mentioned in MENTION.findall(found.group(1)):
            if len(sentence) > 3:
                yield mentioned, Role(sentence, path, number)


def _place(mentioned: str, document: str, places: set[str]) -> str | None:
    """Return the folder or file that a document means: from the root, or from its own folder."""
    name = mentioned.strip("/")
    beside = posixpath.normpath(posixpath.join(posixpath.dirname(document), name))
    return next((place for place in (name, beside) if place in places), None)
