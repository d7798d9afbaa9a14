"""``GraphModule``: a graph with the values that it captured, callable like a function."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from pullback.errors import GraphError
from pullback.fx.graph import Graph
from pullback.fx.source import annotate, run_source
from pullback.utils import pytree

__all__ = ["GraphModule"]


class GraphModule:
    """A graph and its captured values; a call runs the source that the graph stands for.

    Args:
        root: the captured values by name, which ``get_attr`` nodes read; or another module.
        graph: the graph; after changes to it, call ``recompile()``.
        in_spec: the structure of the arguments, if they are containers; each leaf is an input.

    >>> import pullback as pb
    >>> from pullback.fx.experimental.proxy_tensor import make_fx
    >>> module = make_fx(lambda x: pb.sin(x) * 2)(pb.tensor([0.0, 1.0]))
    >>> print(module.code)
    def forward(self, x_1):
        sin = pullback.ops.pullback.sin.default(x_1);  x_1 = None
        mul = pullback.ops.pullback.mul.default(sin, 2);  sin = None
        return mul
    <BLANKLINE>
    >>> for node in module.graph.nodes:
    ...     if node.target is pb.ops.pullback.sin.default:
    ...         node.target = pb.ops.pullback.cos.default
    >>> _ = module.recompile()
    >>> module(pb.tensor([0.0]))
    tensor([2.])
    """

    _run: Callable[..., Any]

    def __init__(
        self,
        root: Mapping[str, Any] | GraphModule,
        graph: Graph,
        in_spec: pytree.Spec | None = None,
    ):
        captured = root.captured() if isinstance(root, GraphModule) else root
        self._captured: dict[str, Any] = {}
        self._graph = graph
        self._in_spec = in_spec
        for node in graph.nodes:
            if node.op == "get_attr":
                if node.target not in captured:
                    raise GraphError(
                        f"GraphModule: the graph reads {node.target!r}, which the root does not "
                        f"have; it has {', '.join(captured) or 'nothing'}"
                    )
                self._captured[node.target] = captured[node.target]
        vars(self).update(self._captured)
        self.recompile()

    def captured(self) -> dict[str, Any]:
        """The captured values by name, as they are now."""
        return {name: vars(self)[name] for name in self._captured}

    def recompile(self) -> Any:
        """Makes the function from the graph; returns its source and the names that it reads."""
        code = self.graph.python_code()
        self._code = code.src
        self._run = run_source(code.src, "forward", "graph module", code.globals)
        return code

    @property
    def graph(self) -> Graph:
        """The graph; setting another one recompiles."""
        return self._graph

    @graph.setter
    def graph(self, graph: Graph) -> None:
        self._graph = graph
        self.recompile()

    @property
    def code(self) -> str:
        """The source of the function."""
        return self._code

    @property
    def in_spec(self) -> pytree.Spec | None:
        """The structure of the arguments; None if each is an input."""
        return self._in_spec

    def flatten_arguments(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The inputs of the graph, which are the leaves of the arguments."""
        if self._in_spec is None:
            return args
        return tuple(pytree.flatten_like(self._in_spec, args, "the tuple of arguments"))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the program."""
        return self._run(self, *self.flatten_arguments(args), **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the program."""
        return self.forward(*args, **kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphModule:
        captured = copy.deepcopy(self.captured(), memo)
        return GraphModule(captured, copy.deepcopy(self._graph, memo), self._in_spec)

    def __reduce__(self) -> tuple[Any, ...]:
        return GraphModule, (self.captured(), self._graph, self._in_spec)

    def print_readable(self, print_output: bool = True) -> str:
        """Returns the source with the shape and dtype of each value, and prints it."""
        text = annotate(self._code, self.graph.nodes)
        if print_output:
            print(text)
        return text

    def __repr__(self) -> str:
        return f"GraphModule()\n\n{self._code}"
