"""Functional form of a graph: no operator of it writes to memory.

A traced graph has in-place operators and views that share memory. Here each memory has a newest
value. A view is made again from it where it is read, by the same operators; a write makes the next
value: the operator without the underscore, and, through a view, an ``index_put`` of the places that
the view has in the whole.
"""

from __future__ import annotations

import operator as python_operators
from typing import Any, NamedTuple

import numpy as np

from pullback.dispatch.table import ENTRIES
from pullback.errors import TraceError
from pullback.fx.batched import BatchedCall
from pullback.fx.graph import Graph
from pullback.fx.graph_module import GraphModule
from pullback.fx.node import Node, map_arg, schema_of
from pullback.fx.tracer import untraced
from pullback.tensor.tensor import wrap

__all__ = ["functional_form"]


class _Memory:
    """One memory: the node of its newest value, and the views of it that have been made."""

    def __init__(self, value: Node):
        self.value = value
        self.given = value  # what the program was given, if it is an input
        self.views: dict[tuple[Node, ...], Node] = {}


class _Place(NamedTuple):
    """A value of the old graph: a memory, and the view operators that lead to it."""

    memory: _Memory
    path: tuple[Node, ...]


class _Rewriter:
    def __init__(self, module: GraphModule, keeps_views: bool):
        self.old = module.graph
        self.graph = Graph()
        self.captured = module.captured()
        self.in_spec = module.in_spec
        self.keeps_views = keeps_views
        self.places: dict[Node, _Place] = {}
        self.lists: dict[Node, Node] = {}  # nodes whose value is a list or tuple
        roots = [node.meta["root"] for node in self.old.nodes if "root" in node.meta]
        self.shared = {root for root in roots if roots.count(root) > 1}

    def run(self) -> GraphModule:
        for node in self.old.nodes:
            if node.op == "output":
                result = map_arg(node.args[0], self.read)
                self._write_back()
                self.graph.output(result)
            elif node.op in ("placeholder", "get_attr"):
                self._keep(node, self.graph.node_copy(node))
            else:
                self._call(node)
        self.graph.eliminate_dead_code()
        self.graph.lint()
        return GraphModule(self.captured, self.graph, self.in_spec)

    def _keep(self, node: Node, made: Node) -> None:
        self.places[node] = _Place(_Memory(made), ())

    def read(self, node: Node) -> Node:
        """The node of the new graph with the value that a node has at this point."""
        if node in self.lists:
            return self.lists[node]
        memory, path = self.places[node]
        value = memory.value
        for count, step in enumerate(path, 1):
            known = memory.views.get(path[:count])
            if known is None:
                known = self._view(step, value, memory, path[: count - 1])
                if not self.keeps_views:
                    known = self.graph.call_function(_operator("clone"), (known,))
                memory.views[path[:count]] = known
            value = known
        return value

    def _view(self, step: Node, value: Node, memory: _Memory, path: tuple[Node, ...]) -> Node:
        """A view of `value`, by the call that made `step`, or the list of which it is an item."""
        call = _call_of(step)
        made = memory.views.get((*path, call))
        if made is None:

            def swap(old: Node) -> Node:
                return value if old is step.meta["view_of"] else self.read(old)

            made = memory.views[(*path, call)] = self.graph.node_copy(call, swap)
        if call is step:
            return made
        return self.graph.call_function(python_operators.getitem, (made, step.args[1]))

    def _call(self, node: Node) -> None:
        schema = schema_of(node.target)
        if schema is not None and schema.is_mutable:
            self._write(node)
        elif "view_of" in node.meta:
            memory, path = self.places[node.meta["view_of"]]
            self.places[node] = _Place(memory, (*path, node))
        elif "tensor_meta" in node.meta:
            self._keep(node, self.graph.node_copy(node, self.read))
        else:
            self.lists[node] = self.graph.node_copy(node, self.read)

    def _write(self, node: Node) -> None:
        operator = getattr(node.target, "operator", node.target)  # a BatchedCall has one
        name = operator.name().removeprefix("pullback::")
        target = node.args[0] if node.args else None
        if target not in self.places or not name.endswith("_"):
            raise TraceError(
                f"functionalize: {node.target} writes to an argument, and has no form that does "
                f"not; call the operator without out="
            )
        place = self.places[target]
        value = self._compute_write(name, self.read(target), node, target)
        memory = place.memory
        if memory.given.meta.get("root") in self.shared:
            raise TraceError(
                f"functionalize: {name} writes to memory that two inputs or captured arrays share; "
                f"give the function one of them, and make the other inside as a view of it"
            )
        if place.path:
            value = self._scatter(place, value, target)
        memory.value = value
        memory.views = {}
        self.places[node] = place

    def _compute_write(self, name: str, now: Node, node: Node, target: Node) -> Node:
        """The new value of the elements that an in-place operator writes."""
        shape, dtype, _ = target.meta["tensor_meta"]
        rest = map_arg(node.args[1:], self.read)
        batched = node.target if isinstance(node.target, BatchedCall) else None
        if name == "copy_" or (name == "fill_" and batched and isinstance(rest[0], Node)):
            value = self._aligned(batched, node.args[1], shape) if batched else rest[0]
        elif name in ("fill_", "zero_"):
            value = rest[0] if rest else 0
        else:
            entry = ENTRIES.get(f"pullback::{name[:-1]}")
            if entry is None:
                raise TraceError(f"functionalize: no operator {name[:-1]!r} for {name!r}")
            kwargs = map_arg(node.kwargs, self.read)
            function: Any = entry.operator
            if batched:
                function = BatchedCall(function, batched.levels, batched.sizes)
            value = self.graph.call_function(function, (now, *rest), kwargs)
        if not isinstance(value, Node):
            return self.graph.call_function(_operator("full"), (list(shape), value, dtype))
        if name != "copy_" or rest[0].meta.get("tensor_meta", (None, None))[1] != dtype:
            value = self.graph.call_function(_operator("astype"), (value, dtype))
        return self.graph.call_function(_operator("broadcast_to"), (value, list(shape)))

    def _aligned(self, call: BatchedCall, source: Any, shape: tuple[int, ...]) -> Any:
        """The source of a copy inside vmap, with an axis for each of a shape."""
        if not isinstance(source, Node):
            return source
        levels = call.levels[1]
        lead = [size if level in levels else 1 for level, size in enumerate(call.sizes)]
        rest = source.meta["tensor_meta"].shape[len(levels) :]
        missing = len(shape) - len(lead) - len(rest)
        return self.graph.call_function(
            _operator("reshape"), (self.read(source), [*lead, *(1,) * missing, *rest])
        )

    def _scatter(self, place: _Place, value: Node, target: Node) -> Node:
        """The whole memory with new values at the places of a view."""
        whole = place.memory.value
        shape = self._whole_shape(place, target)
        size = int(np.prod(shape))
        places: Any = wrap(np.arange(size).reshape(shape))
        for step in place.path:
            source, maker = step.meta["view_of"], _call_of(step)

            def swap(old: Node, source: Node = source, places: Any = places) -> Any:
                return places if old is source else old

            with untraced():
                args, kwargs = map_arg(maker.args, swap), map_arg(maker.kwargs, swap)
                places = maker.target(*args, **kwargs)
            places = places if maker is step else places[step.args[1]]
        flat = np.ascontiguousarray(places._array).reshape(-1)
        name = f"_places{len(self.captured)}"
        self.captured[name] = wrap(flat)
        call = self.graph.call_function
        row = call(_operator("reshape"), (whole, [size]))
        new = call(_operator("reshape"), (value, [flat.size]))
        index = self.graph.get_attr(name)
        put = call(_operator("index_put"), (row, [index], new))
        return call(_operator("reshape"), (put, list(shape)))

    def _whole_shape(self, place: _Place, target: Node) -> tuple[int, ...]:
        first = place.path[0].meta["view_of"] if place.path else target
        shape: tuple[int, ...] = first.meta["tensor_meta"].shape
        return shape

    def _write_back(self) -> None:
        """Writes the newest values of inputs and captured arrays to their memory, at the end."""
        for node, (memory, path) in self.places.items():
            given = node.op in ("placeholder", "get_attr") and not path
            if given and memory.value is not memory.given:
                self.graph.call_function(_operator("copy_"), (memory.given, memory.value))


def _call_of(view: Node) -> Node:
    """The call that made a view: of a list of views, if it is an item of one."""
    return view.args[0] if view.target is python_operators.getitem else view


def _operator(name: str) -> Any:
    return ENTRIES[f"pullback::{name}"].operator


def functional_form(module: GraphModule, *, keeps_views: bool = True) -> GraphModule:
    """A module that computes the same without in-place operators.

    Writes to inputs and captured values remain, as one ``copy_`` each at the end. With
    ``keeps_views=False`` every view is copied.

    >>> import pullback as pb
    >>> from pullback.fx.experimental.proxy_tensor import make_fx
    >>> def f(x):
    ...     y = x.clone()
    ...     y[0] = 5.0
    ...     return y
    >>> module = make_fx(f)(pb.tensor([1.0, 2.0]))
    >>> functional_form(module)(pb.tensor([1.0, 2.0]))
    tensor([5., 2.])
    """
    return _Rewriter(module, keeps_views).run()
