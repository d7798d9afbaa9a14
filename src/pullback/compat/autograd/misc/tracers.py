"""``autograd.misc.tracers``: graphs of programs, to be run again or to be read."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from pullback.compat.autograd.recording import Node, trace
from pullback.compat.autograd.util import subvals, toposort
from pullback.compat.autograd.wrap_util import wraps
from pullback.errors import AutogradValueError

__all__ = ["ConstGraphNode", "FullGraphNode", "const_graph", "const_graph_unary", "full_graph"]

_Function = Callable[..., Any]


class ConstGraphNode(Node):
    """An operation with its constant arguments, as a function of the others."""

    __slots__ = ("parents", "partial_fun")

    def __init__(
        self,
        value: Any,  # noqa: ARG002 - as all nodes
        fun: _Function,
        args: Any,
        kwargs: Any,
        parent_argnums: Any,
        parents: Any,
    ):
        constants = subvals(args, [(place, None) for place in parent_argnums])
        self.parents = parents
        self.partial_fun = lambda values: fun(
            *subvals(constants, zip(parent_argnums, values, strict=True)), **kwargs
        )

    def initialize_root(self) -> None:
        """Makes the node of the argument, which has no parents."""
        self.parents = ()


def const_graph_unary(fun: _Function) -> _Function:
    """`const_graph` for a function of one argument."""
    graph: list[Any] = []

    def run(x: Any) -> Any:
        if not graph:
            value, end = trace(ConstGraphNode.new_root(), fun, x)
            if end is None:
                raise AutogradValueError("Output is independent of input")
            graph.extend(reversed(list(toposort(end))))
            return value
        values = {graph[0]: x}
        for node in graph[1:]:
            values[node] = node.partial_fun([values[parent] for parent in node.parents])
        return values[graph[-1]]

    return run


def const_graph(fun: _Function, *args: Any, **kwargs: Any) -> _Function:
    """The function, whose operations are recorded in the first call and repeated in the others.

    Values that do not depend on the arguments, and branches, stay what they were in the first call.
    Further arguments are given to the function before its own.

    >>> import numpy as np
    >>> fast = const_graph(lambda x, y: np.sin(x) * y)
    >>> round(fast(1.0, 2.0), 6), round(fast(0.5, 2.0), 6)
    (1.682942, 0.958851)
    """
    partial = functools.partial(fun, *args, **kwargs)
    unary = const_graph_unary(lambda given: partial(*given))
    return wraps(fun)(lambda *given: unary(given))


class FullGraphNode(Node):
    """An operation with all it was called with.

    Attributes:
        value: the result.
        recipe: function, arguments, keywords, and pairs of argument place and parent.
    """

    __slots__ = ("recipe", "value")

    def __init__(
        self, value: Any, fun: _Function, args: Any, kwargs: Any, parent_argnums: Any, parents: Any
    ):
        self.value = value
        self.recipe = (fun, args, kwargs, list(zip(parent_argnums, parents, strict=True)))

    def initialize_root(self) -> None:
        """Makes the node of the argument."""
        self.value = None
        self.recipe = (lambda x: x, (), {}, [])


def full_graph(fun: _Function, *args: Any, **kwargs: Any) -> Any:
    """The node of the result of ``fun(*args, **kwargs)``, with all operations behind it.

    >>> import numpy as np
    >>> node = full_graph(lambda x: np.sin(x) * 2.0, 0.5)
    >>> node.recipe[0].__name__, round(float(node.value), 6)
    ('mul', 0.958851)
    """
    return trace(FullGraphNode.new_root(), lambda given: fun(*given, **kwargs), args)[1]
