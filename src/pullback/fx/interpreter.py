"""``Interpreter``: runs a graph node by node; subclasses change what a node does."""

from __future__ import annotations

from typing import Any

from pullback.fx.graph_module import GraphModule
from pullback.fx.node import Node, map_arg

__all__ = ["Interpreter"]


class Interpreter:
    """Runs a module's graph one node after the other.

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

    def __init__(self, module: GraphModule):
        self.module = module
        self.env: dict[Node, Any] = {}

    def run(self, *args: Any) -> Any:
        """Runs the whole graph; returns what it returns."""
        self.env = {}
        given = iter(args)
        result = None
        for node in self.module.graph.nodes:
            if node.op == "placeholder":
                self.env[node] = next(given)
                continue
            self.env[node] = result = self.run_node(node)
            if node.op == "output":
                break
        return result

    def run_node(self, n: Node) -> Any:
        """The value of one node, whose arguments are known."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        if n.op == "get_attr":
            return getattr(self.module, n.target)
        if n.op == "output":
            return args[0]
        return self.call_function(n.target, args, kwargs)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls what a node calls."""
        return target(*args, **kwargs)

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a node with values in the place of nodes."""
        return map_arg(n.args, self.env.__getitem__), map_arg(n.kwargs, self.env.__getitem__)
