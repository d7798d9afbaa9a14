"""``Proxy``: stands for the value of a node; what is done with it adds nodes to the graph."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from pullback.fx.node import Node, map_aggregate

__all__ = ["Proxy", "node_arguments"]


class Proxy:
    """The value of a node that will be computed when the graph runs.

    Python's operators and methods on it add nodes after those that the graph has.

    >>> from pullback import fx
    >>> graph = fx.Graph()
    >>> x = fx.Proxy(graph.placeholder("x"))
    >>> _ = graph.output((-x[0] + 2).node)
    >>> fx.GraphModule({}, graph)([40])
    -38
    """

    def __init__(self, node: Node):
        self.node = node

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Attribute(self, name)

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __bool__(self) -> bool:
        raise TypeError(f"{self!r} has no value: the program must not branch on it")

    def __iter__(self) -> Any:
        raise TypeError(f"{self!r} has no length; read its items by proxy[0]")


class _Attribute(Proxy):
    """An attribute of a proxy: a method that is called, or a value."""

    def __init__(self, root: Proxy, name: str):
        self._root = root
        self._name = name

    @property
    def node(self) -> Node:  # type: ignore[override]
        """The node that reads the attribute."""
        graph = self._root.node.graph
        return graph.call_function(getattr, (self._root.node, self._name))

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        root = self._root.node
        given, named = node_arguments((root, *args)), node_arguments(kwargs)
        return Proxy(root.graph.call_method(self._name, given, named))


def node_arguments(value: Any) -> Any:
    """Arguments with nodes in the place of proxies."""
    return map_aggregate(value, lambda item: item.node if isinstance(item, Proxy) else item)


def _binary(function: Callable[..., Any], *, is_reflected: bool = False) -> Callable[..., Any]:
    def method(self: Proxy, *args: Any) -> Proxy:
        given = (*args, self) if is_reflected else (self, *args)
        return Proxy(self.node.graph.call_function(function, node_arguments(given)))

    return method


_OPERATORS = "add sub mul truediv floordiv mod pow matmul and_ or_ xor lshift rshift"
for _name in _OPERATORS.split():
    _function = getattr(operator, _name)
    setattr(Proxy, f"__{_name.strip('_')}__", _binary(_function))
    setattr(Proxy, f"__r{_name.strip('_')}__", _binary(_function, is_reflected=True))
for _name in ["neg", "pos", "abs", "invert", "eq", "ne", "lt", "le", "gt", "ge", "getitem"]:
    setattr(Proxy, f"__{_name}__", _binary(getattr(operator, _name)))
Proxy.__hash__ = object.__hash__  # type: ignore[method-assign]
