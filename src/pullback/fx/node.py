"""``Node``: one operation of a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pullback.errors import GraphError

if TYPE_CHECKING:
    from pullback.fx.graph import Graph

__all__ = [
    "KINDS",
    "Node",
    "TensorMetadata",
    "callable_name",
    "map_aggregate",
    "map_arg",
    "memory_of",
    "nodes_in",
    "schema_of",
]

KINDS = ("placeholder", "call_function", "call_method", "get_attr", "output", "root")


def map_arg(value: Any, function: Callable[[Node], Any]) -> Any:
    """An argument with ``function(node)`` in the place of each node in it.

    >>> map_arg([1, (2, None)], lambda node: node.name)
    [1, (2, None)]
    """
    return map_aggregate(value, lambda item: function(item) if isinstance(item, Node) else item)


def map_aggregate(value: Any, function: Callable[[Any], Any]) -> Any:
    """An argument with ``function(item)`` in the place of each item that is no container.

    >>> map_aggregate([1, (2, slice(3))], lambda item: item and item * 10)
    [10, (20, slice(None, 30, None))]
    """
    if isinstance(value, list | tuple):
        items = [map_aggregate(item, function) for item in value]
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*items)
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, dict):
        return {key: map_aggregate(item, function) for key, item in value.items()}
    if isinstance(value, slice):
        return slice(*(map_aggregate(v, function) for v in (value.start, value.stop, value.step)))
    return function(value)


def nodes_in(value: Any) -> Iterator[Node]:
    """The nodes in an argument, from left to right."""
    if isinstance(value, Node):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from nodes_in(item)
    elif isinstance(value, dict):
        yield from nodes_in(list(value.values()))
    elif isinstance(value, slice):
        yield from nodes_in((value.start, value.stop, value.step))


def memory_of(node: Node) -> Node:
    """The node that made the memory in which a traced value lies."""
    while "view_of" in node.meta:
        node = node.meta["view_of"]
    return node


class TensorMetadata(NamedTuple):
    """Shape, dtype and strides of the value of a node, in ``node.meta["tensor_meta"]``."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...]

    @classmethod
    def of(cls, array: Any) -> TensorMetadata:
        """The metadata of an array."""
        return cls(array.shape, array.dtype, array.strides)

    def __str__(self) -> str:
        return f"{self.dtype.name}{list(self.shape)}"


class Node:
    """One operation of a ``Graph``: what is called, its arguments, and the users of its result.

    Attributes:
        graph: the graph that it belongs to.
        name: its name, unique in the graph.
        op: ``"placeholder"`` (an input), ``"call_function"``, ``"call_method"`` (of the first
            argument), ``"get_attr"`` (a captured value), ``"output"``, or ``"root"``: the node that
            stands before the first one and after the last one, and is no part of the program.
        target: the function or operator that is called; the name of a method, input or attribute.
        type: the type of its value as an annotation, or None.
        users: the nodes that use its result, as the keys of a dict.
        meta: anything that passes note. A tracer adds ``tensor_meta`` (a ``TensorMetadata``);
            ``number``, the type of a Python number; ``root``, the id of memory from outside, of an
            input or captured value; ``is_scalar`` of a captured number, which cannot change;
            ``view_of``, the node in whose memory the value lies, and ``byte_offset`` from it, which
            the results of writes have not. ``is_constant`` is added by ``eager/program.py``.

    >>> from pullback import fx
    >>> graph = fx.Graph()
    >>> x = graph.placeholder("x")
    >>> y = graph.call_function(abs, (x,))
    >>> y.args, list(x.users)
    ((x,), [abs_1])
    """

    def __init__(self, graph: Graph, name: str, op: str, target: Any, args: Any, kwargs: Any):
        if op not in KINDS:
            raise GraphError(f"a node's op is one of {', '.join(KINDS)}, not {op!r}")
        if op == "call_function" and not callable(target):
            raise GraphError(f"call_function: the target must be callable, not {target!r}")
        self.graph = graph
        self.name = name
        self.op = op
        self.target = target
        self.type: Any = None
        self.users: dict[Node, None] = {}
        self.meta: dict[str, Any] = {}
        self._args: tuple[Any, ...] = ()
        self._kwargs: dict[str, Any] = {}
        self._set(tuple(args), dict(kwargs))

    @property
    def args(self) -> tuple[Any, ...]:
        """The positional arguments; setting them updates `users` of the nodes in them."""
        return self._args

    @args.setter
    def args(self, args: tuple[Any, ...]) -> None:
        self._set(tuple(args), self._kwargs)

    @property
    def kwargs(self) -> dict[str, Any]:
        """The arguments by name; setting them updates `users` of the nodes in them."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, kwargs: dict[str, Any]) -> None:
        self._set(self._args, dict(kwargs))

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes among the arguments, each once."""
        return list(dict.fromkeys(nodes_in((self._args, self._kwargs))))

    def _set(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for node in self.all_input_nodes:
            node.users.pop(self, None)
        self._args, self._kwargs = args, kwargs
        for node in self.all_input_nodes:
            if node.graph is not self.graph:
                raise GraphError(f"{self.name}: the argument {node} belongs to another graph")
            node.users[self] = None

    def update_arg(self, place: int, value: Any) -> None:
        """Replaces one positional argument."""
        args = list(self._args)
        args[place] = value
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Any) -> None:
        """Inserts a positional argument."""
        self.args = (*self._args[:idx], arg, *self._args[idx:])

    def prepend(self, x: Node) -> None:
        """Moves a node of the graph in front of this one."""
        self.graph._move(x, self, 0)

    def append(self, x: Node) -> None:
        """Moves a node of the graph behind this one."""
        self.graph._move(x, self, 1)

    @property
    def stack_trace(self) -> str | None:
        """The place in the program that made it, if a pass has put it into `meta`."""
        return self.meta.get("stack_trace")

    def is_impure(self) -> bool:
        """Whether it has to stay, though nothing uses its result: it writes, or draws numbers."""
        if self.op != "call_function":
            return self.op in ("placeholder", "output", "call_method")
        schema = schema_of(self.target)
        if schema is None:
            return getattr(self.target, "__module__", "") not in ("_operator", "operator")
        tags = getattr(self.target, "tags", ())
        return bool(schema.is_mutable) or "nondeterministic_seeded" in tags

    def update_kwarg(self, name: str, value: Any) -> None:
        """Replaces one argument by name."""
        self.kwargs = {**self._kwargs, name: value}

    def replace_input_with(self, old: Node, new: Any) -> None:
        """Replaces one node by another in all arguments."""

        def swap(node: Node) -> Any:
            return new if node is old else node

        self._set(map_arg(self._args, swap), map_arg(self._kwargs, swap))

    def replace_all_uses_with(
        self, replace_with: Node, delete_user_cb: Callable[[Node], bool] = lambda _: True
    ) -> list[Node]:
        """Puts another node in the place of this one wherever it is used; returns those users.

        `delete_user_cb` says which users are changed; all by default.
        """
        changed = [user for user in list(self.users) if delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    @property
    def next(self) -> Node:
        """The node after it; for the last, a node whose op is ``"root"``."""
        return self.graph._neighbour(self, 1)

    @property
    def prev(self) -> Node:
        """The node before it; for the first, a node whose op is ``"root"``."""
        return self.graph._neighbour(self, -1)

    def format_node(self) -> str:
        """One line of text, as ``print(graph)`` has it."""
        if self.op == "placeholder":
            head = f"%{self.name} : [num_users={len(self.users)}] = placeholder"
            default = f"(default={self._args[0]!r})" if self._args else ""
            return f"{head}[target={self.target}]{default}"
        if self.op == "output":
            return f"return {self._args[0]}"
        printed = map_arg(self._args, lambda node: _Raw(f"%{node.name}"))
        named = map_arg(self._kwargs, lambda node: _Raw(f"%{node.name}"))
        target = self.target if isinstance(self.target, str) else callable_name(self.target)
        return (
            f"%{self.name} : [num_users={len(self.users)}] = {self.op}[target={target}]"
            f"(args = {printed}, kwargs = {named})"
        )

    def __repr__(self) -> str:
        return self.name


class _Raw(str):
    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def callable_name(target: Any) -> str:
    """The name of a function or operator in Python source."""
    if hasattr(target, "overloadpacket"):
        return f"pullback.ops.{target}"
    module = getattr(target, "__module__", None) or "builtins"
    name = getattr(target, "__qualname__", getattr(target, "__name__", type(target).__qualname__))
    return f"{module.removeprefix('_')}.{name}" if module != "builtins" else name


def schema_of(target: Any) -> Any:
    """The schema of an operator, or of one inside vmap; None for any other function."""
    return getattr(getattr(target, "operator", target), "schema", None)
