"""Python source of nodes: a statement for each, and the objects that its names stand for.

Literals and importable functions are written as they are; anything else gets a name of its own in
the globals of the source. ``compiled/eager/program.py`` writes kernels in the place of operators.
"""

from __future__ import annotations

import builtins
import itertools
import linecache
import operator
import re
import weakref
from collections.abc import Callable, Hashable, Iterable
from importlib import import_module
from keyword import iskeyword
from typing import Any

import numpy as np

from pullback.fx.node import Node, callable_name

__all__ = ["SourceWriter", "annotate", "run_source"]

_INFIX = {
    "add sub mul truediv floordiv mod pow matmul": "+ - * / // % ** @",
    "and_ or_ xor lshift rshift eq ne lt le gt ge": "& | ^ << >> == != < <= > >=",
}
_FORMS = {
    getattr(operator, name): f"{{}} {sign} {{}}"
    for names, signs in _INFIX.items()
    for name, sign in zip(names.split(), signs.split(), strict=True)
}
_FORMS |= {operator.neg: "-{}", operator.pos: "+{}", operator.invert: "~{}"}
_FORMS |= {operator.getitem: "{}[{}]"}
"""The form in which Python writes a call of each of its operators."""

_numbers = itertools.count()


class SourceWriter:
    """Turns nodes into Python statements and collects the names that these read.

    Args:
        root_module: the name of the object whose attributes are captured values.
        taken: names of nodes, which no global may have.
    """

    def __init__(self, root_module: str = "self", taken: Iterable[str] = ()) -> None:
        self.globals: dict[str, Any] = {}
        self._root = root_module
        self._taken = frozenset(taken)

    def parameter(self, node: Node) -> str:
        """An input in the signature of the function."""
        return f"{node.name}={self.literal(node.args[0])}" if node.args else node.name

    def statement(self, node: Node) -> str:
        """The statement of one node."""
        if node.op == "output":
            return f"return {self.literal(node.args[0])}"
        if node.op == "get_attr":
            return f"{node.name} = {self._root}.{node.target}"
        values = [self.literal(value) for value in node.args]
        form = self._form(node)
        if form:
            if "[" not in form:  # -2 ** x is -(2 ** x)
                values = [f"({text})" if text.startswith("-") else text for text in values]
            return f"{node.name} = {form.format(*values)}"
        values += [f"{name}={self.literal(value)}" for name, value in node.kwargs.items()]
        if node.op == "call_method":
            return f"{node.name} = {values[0]}.{node.target}({', '.join(values[1:])})"
        return f"{node.name} = {self.function(node.target)}({', '.join(values)})"

    def _form(self, node: Node) -> str:
        """The form in which Python writes a call of an operator; empty for any other call."""
        if node.target is getattr and len(node.args) == 2:
            value, name = node.args
            is_name = isinstance(name, str) and name.isidentifier() and not iskeyword(name)
            return f"{{}}.{name}" if is_name and isinstance(value, Node) else ""
        form = _FORMS.get(node.target, "") if isinstance(node.target, Hashable) else ""
        return "" if node.kwargs or form.count("{}") != len(node.args) else form

    def function(self, target: Any) -> str:
        """The name of what a node calls."""
        name = callable_name(target)
        root = name.partition(".")[0]
        if root in self._taken:
            return self._object(target, root)
        if hasattr(target, "overloadpacket"):
            self.globals[root] = import_module(root)
            return name
        if name.isidentifier() and hasattr(builtins, name):
            return name
        if "<" not in name and _resolve(name) is target:
            self.globals[root] = import_module(root)
            return name
        return self._object(target, re.sub(r"\W", "_", name.rpartition(".")[2]) or "function")

    def literal(self, value: Any) -> str:
        """The text of an argument."""
        if isinstance(value, Node):
            return value.name
        if isinstance(value, list):
            return f"[{', '.join(map(self.literal, value))}]"
        if type(value) is tuple:
            inside = ", ".join(map(self.literal, value))
            return f"({inside},)" if len(value) == 1 else f"({inside})"
        if type(value) is dict:
            items = (f"{self.literal(k)}: {self.literal(v)}" for k, v in value.items())
            return f"{{{', '.join(items)}}}"
        if isinstance(value, slice) and not any(
            isinstance(v, np.ndarray) for v in (value.start, value.stop, value.step)
        ):
            parts = (value.start, value.stop, value.step)
            return f"slice({', '.join(map(self.literal, parts))})"
        if value is None or value is Ellipsis or type(value) in (bool, int, str):
            return "..." if value is Ellipsis else repr(value)
        if type(value) in (float, complex):
            return self._number(value)
        if isinstance(value, np.dtype) and value.names is None and "dtype" not in self._taken:
            self.globals["dtype"] = np.dtype
            return f"dtype({value.name!r})"
        return self._object(value, type(value).__name__.lower())

    def _number(self, value: float | complex) -> str:
        text = repr(value)
        if "inf" in text or "nan" in text:
            return f"{type(value).__name__}({text.strip('()')!r})"
        return text

    def _object(self, value: Any, stem: str) -> str:
        """A name for an object that has no literal."""
        for name, known in self.globals.items():
            if known is value:
                return name
        number = len(self.globals)
        while (name := f"_{stem}_{number}") in self._taken or name in self.globals:
            number += 1
        self.globals[name] = value
        return name


def _resolve(name: str) -> Any:
    root, _, rest = name.partition(".")
    try:
        found: Any = import_module(root)
        for part in rest.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError):
        return None
    return found


def run_source(source: str, name: str, what: str, names: dict[str, Any]) -> Callable[..., Any]:
    """The function that a source defines; tracebacks show its lines while it exists.

    Args:
        source: one function definition.
        name: the function's name.
        what: kind of the source, part of its file name.
        names: globals that it reads.
    """
    filename = f"<{what} {next(_numbers)}>"
    namespace = dict(names)
    exec(compile(source, filename, "exec"), namespace)
    function: Callable[..., Any] = namespace.pop(name)
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    weakref.finalize(function, linecache.cache.pop, filename, None).atexit = False
    return function


def annotate(source: str, nodes: Iterable[Node]) -> str:
    """A source with the shape and dtype of each value."""
    notes = {n.name: n.meta["tensor_meta"] for n in nodes if "tensor_meta" in n.meta}
    lines = []
    for line in source.splitlines():
        meta = notes.get(line.strip().partition(" = ")[0])
        lines.append(line if meta is None else f"{line}  # {meta}")
    return "\n".join(lines)
