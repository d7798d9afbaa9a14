"""``Interpreter`` and ``Transformer``: a graph run node by node, on values or into a graph."""

# ruff: noqa: ARG002 - every op of a node has the same signature, PyTorch's

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pullback.errors import GraphError
from pullback.fx.graph import Graph
from pullback.fx.graph_module import GraphModule
from pullback.fx.node import Node, map_arg
from pullback.fx.proxy import Proxy, node_arguments

__all__ = ["Interpreter", "Transformer"]


class Interpreter:
    """Runs a module's graph one node after the other.

    Subclasses change what a node does: ``run_node(n)``, or the method with the name of its op
    (``placeholder``, ``get_attr``, ``call_function``, ``call_method``, ``output``), which gets the
    target and the values of the arguments.

    Args:
        module: the module.
        garbage_collect_values: forget each value after its last use.
        graph: the graph, if it is not that of the module.

    >>> import pullback as pb
    >>> from pullback.fx.experimental.proxy_tensor import make_fx
    >>> class Shapes(Interpreter):
    ...     def run_node(self, n):
    ...         result = super().run_node(n)
    ...         if n.op == "call_function":
    ...             print(n.name, result.shape)
    ...         return result
    >>> module = make_fx(lambda x: (x * x).sum())(pb.ones(3))
    >>> Shapes(module).run(pb.ones(3))
    mul (3,)
    sum_1 ()
    tensor(3.)
    """

    def __init__(
        self, module: GraphModule, garbage_collect_values: bool = True, graph: Graph | None = None
    ):
        self.module = module
        self.graph = graph or module.graph
        self.garbage_collect_values = garbage_collect_values
        self.env: dict[Node, Any] = {}
        self._given: Iterator[Any] = iter(())

    def run(self, *args: Any, initial_env: dict[Node, Any] | None = None) -> Any:
        """Runs the whole graph; returns what it returns.

        Args:
            args: the arguments of the module.
            initial_env: values of nodes that are known, and not computed.
        """
        self.env = dict(initial_env or {})
        self._given = iter(self.module.flatten_arguments(args))
        return self._run_nodes()

    def _run_nodes(self) -> Any:
        last = {used: node for node in self.graph.nodes for used in node.all_input_nodes}
        for node in self.graph.nodes:
            if node in self.env:
                continue
            self.env[node] = result = self.run_node(node)
            if self.garbage_collect_values:
                for used in node.all_input_nodes:
                    if last[used] is node:
                        del self.env[used]
            if node.op == "output":
                return result
        return None

    def run_node(self, n: Node) -> Any:
        """The value of one node, whose arguments are known."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return getattr(self, n.op)(n.target, args, kwargs)

    def placeholder(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The next argument, or the default value of the input."""
        if (given := next(self._given, self)) is not self:
            return given
        if args:
            return args[0]
        raise GraphError(f"Interpreter: no argument was passed for the input {target!r}")

    def get_attr(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A captured value."""
        return self.fetch_attr(target)

    def fetch_attr(self, target: str) -> Any:
        """An attribute of the module."""
        return getattr(self.module, target)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls a function or operator."""
        return target(*args, **kwargs)

    def call_method(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls a method of the first argument."""
        return getattr(args[0], target)(*args[1:], **kwargs)

    def output(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of the graph."""
        return args[0]

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a node with values in the place of nodes."""
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args: Any, n: Node) -> Any:
        """Arguments with values in the place of nodes."""

        def value(node: Node) -> Any:
            if node not in self.env:
                raise GraphError(f"Interpreter: {n} uses {node}, which comes later or was erased")
            return self.env[node]

        return map_arg(args, value)


class Transformer(Interpreter):
    """Runs a module's graph on proxies: what its methods do with them becomes another graph.

    >>> import pullback as pb
    >>> from pullback.fx.experimental.proxy_tensor import make_fx
    >>> class Cosines(Transformer):
    ...     def call_function(self, target, args, kwargs):
    ...         if target is pb.ops.pullback.sin.default:
    ...             return super().call_function(pb.ops.pullback.cos.default, args, kwargs) + 1
    ...         return super().call_function(target, args, kwargs)
    >>> module = make_fx(lambda x: pb.sin(x) * 2)(pb.ones(3))
    >>> print(Cosines(module).transform().code)
    def forward(self, x_1):
        cos = pullback.ops.pullback.cos.default(x_1);  x_1 = None
        add = cos + 1;  cos = None
        mul = pullback.ops.pullback.mul.default(add, 2);  add = None
        return mul
    <BLANKLINE>
    """

    def __init__(self, module: GraphModule):
        super().__init__(module)
        self.new_graph = Graph()

    def transform(self) -> GraphModule:
        """The module with the new graph."""
        self.new_graph = Graph()
        self.env = {}
        result = self._run_nodes()
        self.new_graph.output(node_arguments(result))
        return GraphModule(self.module, self.new_graph, self.module.in_spec)

    def placeholder(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Adds the input."""
        return Proxy(self.new_graph.create_node("placeholder", target, args))

    def get_attr(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Adds the read of a captured value."""
        return Proxy(self.new_graph.get_attr(target))

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Adds the call of a function or operator."""
        given, named = node_arguments(args), node_arguments(kwargs)
        return Proxy(self.new_graph.call_function(target, given, named))

    def call_method(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Adds the call of a method."""
        given, named = node_arguments(args), node_arguments(kwargs)
        return Proxy(self.new_graph.call_method(target, given, named))
