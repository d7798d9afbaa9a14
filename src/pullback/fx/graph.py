"""``Graph``: nodes in the order in which they run, and the source of a function that runs them."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import Parameter
from typing import Any, NamedTuple

from pullback.errors import GraphError
from pullback.fx.node import Node, callable_name, map_aggregate, map_arg
from pullback.fx.source import SourceWriter
from pullback.inspector.html_repr import table_html

__all__ = ["Graph", "PythonCode"]


class _NoDefault:
    """No default value; the reference cannot show ``Parameter.empty`` in a signature."""

    def __repr__(self) -> str:
        return "inspect.Parameter.empty"


_NO_DEFAULT = _NoDefault()


class PythonCode(NamedTuple):
    """Source of a function ``forward(self, ...)``, and the names that it reads."""

    src: str
    globals: dict[str, Any]


class Graph:
    """A program as a list of nodes, which can be read, changed and made a function again.

    >>> from pullback import fx
    >>> import operator
    >>> graph = fx.Graph()
    >>> x = graph.placeholder("x")
    >>> y = graph.call_function(operator.mul, (x, 2))
    >>> _ = graph.output(y)
    >>> print(graph.python_code().src)
    def forward(self, x):
        mul = x * 2;  x = None
        return mul
    <BLANKLINE>
    >>> fx.GraphModule({}, graph)(21)
    42
    """

    def __init__(self) -> None:
        self._nodes: list[Node] = []
        self._names: set[str] = set()
        self._numbers: dict[str, int] = {}  # by stem: the last number that was given
        self._place: int | None = None  # where new nodes go; None: at the end
        self._root = Node(self, "", "root", "root", (), {})

    # --- nodes ------------------------------------------------------------------------------------

    @property
    def nodes(self) -> list[Node]:
        """The nodes in order; a list of its own, so that nodes may be erased in a loop over it."""
        return list(self._nodes)

    def create_node(
        self,
        op: str,
        target: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Adds a node, at the end or where ``inserting_before`` and ``inserting_after`` say."""
        stem = name or (target if isinstance(target, str) else _stem(target))
        node = Node(self, self._unique(stem), op, target, args, kwargs or {})
        node.type = type_expr
        if self._place is None:
            self._nodes.append(node)
        else:
            self._nodes.insert(self._place, node)
            self._place += 1
        return node

    def placeholder(
        self, name: str, type_expr: Any = None, default_value: Any = _NO_DEFAULT
    ) -> Node:
        """Adds an input, which may have an annotation and a default value."""
        has_none = default_value is _NO_DEFAULT or default_value is Parameter.empty
        args = () if has_none else (default_value,)
        return self.create_node("placeholder", name, args, type_expr=type_expr)

    def get_attr(self, name: str) -> Node:
        """Adds a read of an attribute of the module: a captured value."""
        return self.create_node("get_attr", name)

    def call_function(
        self,
        target: Callable[..., Any],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Node:
        """Adds a call of a function or operator."""
        return self.create_node("call_function", target, args, kwargs)

    def call_method(
        self, method_name: str, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Node:
        """Adds a call of a method of the first argument."""
        return self.create_node("call_method", method_name, args, kwargs)

    def output_node(self) -> Node:
        """The node that ends the program."""
        found = self.find_nodes(op="output")
        if not found:
            raise GraphError("output_node: the graph has no output yet; call graph.output(value)")
        return found[0]

    def output(self, value: Any) -> Node:
        """Adds the end of the program: what it returns, any structure of nodes and constants."""
        return self.create_node("output", "output", (value,))

    def erase_node(self, node: Node) -> None:
        """Removes a node that nothing uses."""
        if node.users:
            users = ", ".join(user.name for user in node.users)
            raise GraphError(
                f"erase_node: tried to erase {node}, but it still has users in the graph: {users}; "
                f"call replace_all_uses_with first"
            )
        place = self._index(node)
        node._set((), {})
        del self._nodes[place]
        if self._place is not None and place < self._place:
            self._place -= 1

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Any] = lambda x: x) -> Node:
        """Adds a copy of a node of any graph, with its arguments mapped by `arg_transform`."""
        args = map_arg(node.args, arg_transform)
        kwargs = map_arg(node.kwargs, arg_transform)
        made = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        made.meta = dict(node.meta)
        return made

    def graph_copy(
        self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False
    ) -> Any:
        """Adds copies of all nodes of a graph but its output; returns what the graph returns.

        Args:
            g: the graph.
            val_map: gets the copy of each node; a node that it has is not copied.
            return_output_node: return a tuple of the result and the output node of `g`.
        """
        for node in g._nodes:
            if node.op == "output":
                result = map_arg(node.args[0], val_map.__getitem__)
                return (result, node) if return_output_node else result
            if node not in val_map:
                made = val_map[node] = self.node_copy(node, val_map.__getitem__)
                made.meta = {key: _map_nodes(value, val_map) for key, value in node.meta.items()}
        return None

    @contextmanager
    def inserting_before(self, n: Node | None = None) -> Iterator[None]:
        """A block in which new nodes go before a node; without one, before all nodes."""
        before, self._place = self._place, 0 if n is None else self._index(n)
        try:
            yield
        finally:
            self._place = before

    @contextmanager
    def inserting_after(self, n: Node | None = None) -> Iterator[None]:
        """A block in which new nodes go after a node, in the order in which they are made.

        Without a node, they go after all nodes.
        """
        before = self._place
        self._place = len(self._nodes) if n is None else self._index(n) + 1
        try:
            yield
        finally:
            self._place = before

    def last_node(self) -> Node:
        """The node that was added at the end most recently; the root of an empty graph."""
        return self._nodes[-1] if self._nodes else self._root

    def find_nodes(self, *, op: str, target: Any = None) -> list[Node]:
        """The nodes of a kind and, if given, with a target."""
        return [n for n in self._nodes if n.op == op and (target is None or n.target == target)]

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Removes calls without users and without effects; returns whether there were any.

        An operator that writes to an argument is kept, and so is every function that is no
        operator, unless `is_impure_node` says otherwise.
        """
        impure = is_impure_node or Node.is_impure
        dead = False
        for node in reversed(self.nodes):
            is_call = node.op in ("call_function", "call_method", "get_attr")
            if is_call and not node.users and not impure(node):
                self.erase_node(node)
                dead = True
        return dead

    def lint(self) -> None:
        """Raises if a node is used before it is computed, or names are not unique."""
        seen: set[Node] = set()
        names: set[str] = set()
        for node in self._nodes:
            for used in node.all_input_nodes:
                if used not in seen:
                    raise GraphError(f"{node} uses {used}, which comes later or was erased")
                if node not in used.users:
                    raise GraphError(f"{node} is missing among the users of {used}")
            if node.name in names:
                raise GraphError(f"the name {node.name} occurs twice")
            seen.add(node)
            names.add(node.name)

    def _index(self, node: Node) -> int:
        if node is self._root:  # in a ring: behind the last node, and before the first
            return len(self._nodes)
        for place, known in enumerate(self._nodes):
            if known is node:
                return place
        raise GraphError(f"{node} is not in this graph: it was erased, or belongs to another one")

    def _neighbour(self, node: Node, step: int) -> Node:
        ring = [*self._nodes, self._root]
        return ring[(self._index(node) + step) % len(ring)]

    def _move(self, node: Node, anchor: Node, offset: int) -> None:
        """Moves a node before another one, or behind it."""
        self._index(anchor)
        if node is anchor:
            return
        del self._nodes[self._index(node)]
        is_first = anchor is self._root and offset
        self._nodes.insert(0 if is_first else self._index(anchor) + offset, node)

    def _unique(self, stem: str) -> str:
        stem = re.sub(r"\W", "_", stem) or "value"
        base, _, number = stem.rpartition("_")
        if number.isdigit() and base and stem in self._names:
            stem = base
        taken = keyword.iskeyword(stem) or hasattr(builtins, stem) or stem == "self"
        if not taken and stem not in self._names and not stem[0].isdigit():
            self._names.add(stem)
            return stem
        stem = f"_{stem}" if stem[0].isdigit() else stem
        count = self._numbers.get(stem, 0)
        while True:
            count += 1
            name = f"{stem}_{count}"
            if name not in self._names:
                self._numbers[stem] = count
                self._names.add(name)
                return name

    # --- text -------------------------------------------------------------------------------------

    def python_code(self, root_module: str = "self") -> PythonCode:
        """The source of ``forward(self, ...)`` and the values of the names that it reads.

        Args:
            root_module: the name of the first parameter, whose attributes are captured values.
        """
        writer = SourceWriter(root_module, (node.name for node in self._nodes))
        inputs = [writer.parameter(node) for node in self._nodes if node.op == "placeholder"]
        last: dict[Node, Node] = {}
        for node in self._nodes:
            for used in node.all_input_nodes:
                last[used] = node
        lines: list[str] = []
        for node in self._nodes:
            if node.op == "placeholder":
                continue
            freed = [n.name for n in node.all_input_nodes if last[n] is node]
            freed += [] if node.users else [node.name]
            end = f";  {' = '.join(freed)} = None" if freed and node.op != "output" else ""
            lines.append(f"    {writer.statement(node)}{end}")
        if not any(node.op == "output" for node in self._nodes):
            lines.append("    return None")
        head = f"def forward({', '.join([root_module, *inputs])}):"
        return PythonCode("\n".join([head, *lines]) + "\n", writer.globals)

    def print_tabular(self) -> None:
        """Prints one line for each node: op, name, target, args, kwargs.

        >>> from pullback import fx
        >>> graph = fx.Graph()
        >>> _ = graph.output(graph.placeholder("x"))
        >>> graph.print_tabular()
        opcode       name    target  args  kwargs
        -----------  ------  ------  ----  ------
        placeholder  x       x       ()    {}
        output       output  output  (x,)  {}
        """
        rows = [("opcode", "name", "target", "args", "kwargs")]
        for n in self._nodes:
            target = n.target if isinstance(n.target, str) else callable_name(n.target)
            rows.append((n.op, n.name, target, str(n.args), str(n.kwargs)))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        rows.insert(1, tuple("-" * width for width in widths))  # type: ignore[arg-type]
        for row in rows:
            cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            print("  ".join(cells).rstrip())

    def _repr_html_(self) -> str:
        rows = [(node.op, node.name, node.target, node.args, node.kwargs) for node in self.nodes]
        return table_html(("op", "name", "target", "args", "kwargs"), rows)

    def __str__(self) -> str:
        lines = (f"    {node.format_node()}" for node in self._nodes)
        return "\n".join(["graph():", *lines])

    def __len__(self) -> int:
        return len(self._nodes)

    # --- copies -----------------------------------------------------------------------------------

    def __deepcopy__(self, memo: dict[int, Any]) -> Graph:
        made = Graph()
        memo[id(self)] = made
        copies: dict[Node, Node] = {}
        found = made.graph_copy(self, copies, return_output_node=True)
        if found is not None:
            made.node_copy(found[1], copies.__getitem__)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        """A flat list of nodes: nodes that refer to each other would be pickled by recursion."""
        places = {node: _Place(number) for number, node in enumerate(self._nodes)}
        records = [
            (
                node.op,
                node.target,
                map_arg(node.args, places.__getitem__),
                map_arg(node.kwargs, places.__getitem__),
                node.name,
                node.type,
                {key: node.meta[key] for key in _PICKLED_META if key in node.meta},
            )
            for node in self._nodes
        ]
        return _from_records, (records,)


_PICKLED_META = ("tensor_meta", "stack_trace")


class _Place:
    """A node in a pickled graph: its number."""

    __slots__ = ("number",)

    def __init__(self, number: int):
        self.number = number


def _from_records(records: list[tuple[Any, ...]]) -> Graph:
    graph = Graph()

    def node_of(item: Any) -> Any:
        return graph._nodes[item.number] if isinstance(item, _Place) else item

    for op, target, args, kwargs, name, kind, meta in records:
        args, kwargs = map_aggregate(args, node_of), map_aggregate(kwargs, node_of)
        graph.create_node(op, target, args, kwargs, name, kind).meta = meta
    return graph


def _map_nodes(value: Any, copies: dict[Node, Node]) -> Any:
    return copies.get(value, value) if isinstance(value, Node) else value


def _stem(target: Any) -> str:
    name = getattr(target, "overloadpacket", None)
    if name is not None:
        return str(name).rpartition(".")[2]
    return str(getattr(target, "__name__", type(target).__name__)).strip("_") or "call"
