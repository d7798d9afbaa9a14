"""Entries of operator tables that come from Python values, and not from a file.

They have the form of parsed YAML, so the readers of tables take both, and no YAML parser is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pullback.codegen.load_yaml import Item, Source
from pullback.errors import CodegenError

__all__ = ["python_item"]


@dataclass(frozen=True)
class _Mark:
    line: int = 0
    column: int = 0
    index: int = 0


@dataclass(frozen=True)
class _Node:
    tag: str
    value: Any
    start_mark: _Mark = _Mark()
    end_mark: _Mark = _Mark()
    style: None = None


def python_item(value: Any, name: str) -> Item:
    """A value made of dicts, lists, texts and bools as an item; errors call it `name`.

    >>> python_item({"self": "grad * 2"}, "mine").mapping()["self"].text()
    'grad * 2'
    """
    return Item(_node(value, name), Source(name, ""))


def _node(value: Any, name: str) -> _Node:
    if isinstance(value, bool):
        return _Node("tag:yaml.org,2002:bool", str(value))
    if isinstance(value, str):
        return _Node("tag:yaml.org,2002:str", value)
    if isinstance(value, list | tuple):
        return _Node("tag:yaml.org,2002:seq", [_node(item, name) for item in value])
    if isinstance(value, Mapping):
        pairs = [(_node(key, name), _node(item, name)) for key, item in value.items()]
        return _Node("tag:yaml.org,2002:map", pairs)
    raise CodegenError(f"{name}: expected a text, a list or a dict, but got {value!r:.60}")
