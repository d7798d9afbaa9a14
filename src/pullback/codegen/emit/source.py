"""Small tools for writing Python source: lines, indentation, literals."""

from __future__ import annotations

import textwrap

__all__ = ["WIDTH", "docstring", "indent", "quoted", "tuple_text", "wrapped_call"]

WIDTH = 100


def indent(text: str, by: int = 4) -> str:
    """Moves every line that is not empty to the right."""
    return textwrap.indent(text, " " * by)


def quoted(name: str) -> str:
    """A name as a string literal."""
    return f'"{name}"'


def tuple_text(items: list[str]) -> str:
    """A tuple display; one element keeps its comma.

    >>> tuple_text(["a"]), tuple_text([]), tuple_text(["a", "b"])
    ('(a,)', '()', '(a, b)')
    """
    return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"


def wrapped_call(head: str, items: list[str], tail: str, at: int = 0) -> str:
    """A bracketed list on one line if it fits, else one item a line.

    >>> print(wrapped_call("f(", ["a", "b"], ")"))
    f(a, b)
    """
    line = f"{head}{', '.join(items)}{tail}"
    if at + len(line) <= WIDTH and "\n" not in line:
        return line
    return head + "\n" + "".join(f"    {item},\n" for item in items) + tail


def docstring(text: str, more: list[str]) -> str:
    """A docstring of one line, and further lines after a blank one."""
    if not more:
        return f'"""{text}"""'
    return f'"""{text}\n\n' + "\n".join(more) + '\n"""'
