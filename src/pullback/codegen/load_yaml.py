"""YAML reader that keeps the place of every value, for error messages.

The readers of operator tables (``load_ops``, and those of ``tools/torchgen``) work on
:class:`Item` instead of on plain Python values. PyYAML is needed only here, and only when a file is
read: importing ``pullback.codegen`` works without it.
"""

from __future__ import annotations

import difflib
import importlib
import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pullback.errors import CodegenError, message_of

__all__ = ["Item", "Place", "Source", "load_yaml", "nearest", "parse_yaml"]


class Place(NamedTuple):
    """A position in a file; line and column count from 1.

    >>> str(Place("ops.yaml", 3, 7))
    'ops.yaml:3:7'
    """

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Source:
    """The name and the whole text of a file, kept to find columns inside of folded values."""

    file: str
    text: str

    def place(self, index: int) -> Place:
        """Turn a character index into line and column."""
        line_start = self.text.rfind("\n", 0, index) + 1
        return Place(self.file, self.text.count("\n", 0, index) + 1, index - line_start + 1)


@dataclass(frozen=True, slots=True)
class Item:
    """One YAML value with its place, and the place of the key it belongs to, if any.

    >>> table = parse_yaml("mul: grad * other", "ops.yaml")
    >>> formula = table.mapping()["mul"]
    >>> formula.text(), str(formula.place())
    ('grad * other', 'ops.yaml:1:6')
    """

    node: Any
    source: Source
    key: Any = None

    def place(self, offset: int = 0) -> Place:
        """Say where the value stands, or the character at ``offset`` of its text."""
        mark = self.node.start_mark
        if not offset:
            return Place(self.source.file, mark.line + 1, mark.column + 1)
        return self.source.place(_source_index(self.node, self.source.text, offset))

    def error(self, message: str, offset: int = 0) -> CodegenError:
        """Make an error about this value; the caller raises it."""
        return CodegenError(f"{self.place(offset)}: {message}")

    def key_error(self, message: str) -> CodegenError:
        """Make an error about the key of this value; the caller raises it."""
        mark = (self.key or self.node).start_mark
        return CodegenError(f"{Place(self.source.file, mark.line + 1, mark.column + 1)}: {message}")

    @contextmanager
    def locating(self) -> Iterator[None]:
        """Give errors about the text of this value, raised in the block, their place."""
        try:
            yield
        except CodegenError as error:
            raise self.error(message_of(error), error.offset) from None

    def kind(self) -> str:
        """Name the kind of value in the words of an error message."""
        return _KINDS.get(self.node.tag, f"the kind {self.node.tag!r}")

    def text(self, what: str = "this value") -> str:
        """Return the value, which must be a text."""
        if self.kind() != "text":
            hint = "" if self.kind() in ("list", "mapping") else "; put it in quotes"
            raise self.error(f"{what} must be text, not {self.kind()}{hint}")
        return str(self.node.value)

    def flag(self, what: str = "this value") -> bool:
        """Return the value, which must be true or false."""
        if self.kind() != "bool":
            raise self.error(f"{what} must be True or False, not {self.kind()}")
        return bool(self.node.value.lower() in ("true", "yes", "on"))

    def sequence(self, what: str = "this value") -> list[Item]:
        """Return the values of a list."""
        if self.kind() != "list":
            raise self.error(f"{what} must be a list, not {self.kind()}")
        return [Item(node, self.source) for node in self.node.value]

    def mapping(
        self, what: str = "this value", known: Collection[str] | None = None
    ) -> dict[str, Item]:
        """Return the values of a mapping by key; refuse repeated keys, and keys not ``known``."""
        if self.kind() != "mapping":
            raise self.error(f"{what} must be a mapping, not {self.kind()}")
        found: dict[str, Item] = {}
        for key_node, value_node in self.node.value:
            name = Item(key_node, self.source).text(f"a key of {what}")
            item = Item(value_node, self.source, key_node)
            if name in found:
                first = found[name].key.start_mark.line + 1
                raise item.key_error(f"{name!r} stands twice in {what}; first on line {first}")
            if known is not None and name not in known:
                raise item.key_error(f"unknown key {name!r} in {what}{nearest(name, known)}")
            found[name] = item
        return found


_DEEPEST = 50  # levels of nesting; a table has five
_LISTED = 20  # names to list in a message; more would hide it
_KINDS = {
    "tag:yaml.org,2002:str": "text",
    "tag:yaml.org,2002:bool": "bool",
    "tag:yaml.org,2002:int": "a number",
    "tag:yaml.org,2002:float": "a number",
    "tag:yaml.org,2002:null": "empty",
    "tag:yaml.org,2002:seq": "list",
    "tag:yaml.org,2002:map": "mapping",
}


def nearest(name: str, known: Collection[str]) -> str:
    """Word a suggestion for a misspelt name, to be put at the end of a message.

    >>> nearest("derivaties", ["func", "derivatives"])
    "; did you mean 'derivatives'?"
    >>> nearest("x", ["func", "doc"])
    '; expected one of: doc, func'
    """
    close = difflib.get_close_matches(name, list(known), 1)
    if close:
        return f"; did you mean {close[0]!r}?"
    if 0 < len(known) <= _LISTED:
        return f"; expected one of: {', '.join(sorted(known))}"
    return ""


def load_yaml(path: str | os.PathLike[str]) -> Item:
    """Read a YAML file into an :class:`Item`."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise CodegenError(f"{os.fspath(path)}: cannot read this file: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise CodegenError(f"{os.fspath(path)}: not a text in UTF-8: {error.reason}") from None
    return parse_yaml(text, os.fspath(path))


def parse_yaml(text: str, file: str = "<string>") -> Item:
    """Read a YAML text into an :class:`Item`; ``file`` is the name used in errors.

    >>> [item.text() for item in parse_yaml("[a, b]").sequence()]
    ['a', 'b']
    """
    yaml = _import_yaml()
    # The C parser keeps the same marks and is about ten times faster; wheels have it.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _check_depth(yaml, yaml.parse(text, Loader=loader), file)
        node = yaml.compose(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = Place(file, mark.line + 1, mark.column + 1) if mark else file
        raise CodegenError(f"{place}: not valid YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise CodegenError(f"{file}: not valid YAML: {' '.join(str(error).split())}") from None
    if node is None:
        raise CodegenError(f"{file}: the file is empty; expected a list of entries")
    return Item(node, Source(file, text))


def _import_yaml() -> Any:
    try:
        return importlib.import_module("yaml")
    except ImportError:
        raise CodegenError(
            "reading operator tables needs PyYAML, which is not installed: "
            "pip install pullback[codegen]"
        ) from None


def _check_depth(yaml: Any, events: Iterable[Any], file: str) -> None:
    """Refuse deep nesting before nodes are made: the C composer recurses until it crashes."""
    depth = 0
    for event in events:
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _DEEPEST:
                mark = event.start_mark
                place = Place(file, mark.line + 1, mark.column + 1)
                raise CodegenError(f"{place}: nested more than {_DEEPEST} levels deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _source_index(node: Any, text: str, offset: int) -> int:
    """Find the character of the file that became character ``offset`` of a scalar's value.

    Folding and indentation change white space only, so the n-th other character of the value is
    the n-th other character of the source. Escapes in double quotes break this rule; then the
    start of the value is close enough.
    """
    start, end = node.start_mark.index, node.end_mark.index
    if node.style in ("'", '"'):
        start += 1
    elif node.style in ("|", ">"):
        start = text.index("\n", start)  # the rest of the line says how to fold
    raw = text[start:end]
    if "\\" in raw and node.style == '"':
        return int(start)
    wanted = sum(not c.isspace() for c in node.value[:offset])
    for index, char in enumerate(raw):
        if not char.isspace():
            if wanted == 0:
                return int(start + index)
            wanted -= 1
    return int(start)
