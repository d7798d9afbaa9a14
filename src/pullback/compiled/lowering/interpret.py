"""The meaning of the intermediate representation: its operations computed by NumPy.

It is the oracle of the emitters' tests, and runs the nodes for which there is no machine code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from pullback.compiled.lowering.elementwise import ARRAY_FUNCTIONS, COMBINERS
from pullback.compiled.lowering.ir import Graph, Node
from pullback.kernels.errstate import errstate

__all__ = ["compute", "has_false_check", "interpret"]


def interpret(graph: Graph, arrays: Sequence[Any]) -> tuple[list[Any], bool]:
    """The results of a graph for some inputs, and whether all its checks hold.

    >>> graph = Graph()
    >>> x = graph.input((2,), np.dtype(float))
    >>> graph.outputs = [graph.add("elementwise", (x, x), ("multiply",), (2,))]
    >>> interpret(graph, [np.array([2.0, 3.0])])
    ([array([4., 9.])], True)
    """
    values: dict[int, Any] = {}
    for node, array in zip(graph.inputs, arrays, strict=True):
        values[node.id] = np.asarray(array)
    with errstate(all="ignore"):
        for node in graph.live():
            if node.op != "input":
                values[node.id] = compute(node, [values[n.id] for n in node.inputs])
    holds = all(bool(values[node.id]) for node in graph.checks)
    return [values[node.id] for node in graph.outputs], holds


def has_false_check(graph: Graph, arrays: Sequence[Any]) -> bool:
    """Whether a check does not hold for some inputs, for which a node of the graph may raise."""
    for check in graph.checks:
        part = Graph()
        part.nodes, part.inputs, part.outputs, part.checks = graph.nodes, graph.inputs, [], [check]
        with suppress(Exception):
            if not interpret(part, arrays)[1]:
                return True
    return False


def compute(node: Node, operands: list[Any]) -> Any:
    """The value of one node."""
    found = _OPERATIONS[node.op](node, *operands)
    if isinstance(found, tuple):
        return found
    found = np.asarray(found, order="C")
    if found.dtype != node.dtype or found.shape != node.shape:
        raise AssertionError(f"{node}: computed {found.dtype}{list(found.shape)}")
    return found


def _flat(array: Any) -> Any:
    return np.ascontiguousarray(array).reshape(-1)


def _view(node: Node, x: Any, index: Any = 0) -> Any:
    return _flat(x)[node.place.positions(int(index))]


def _elementwise(node: Node, *operands: Any) -> Any:
    if node.function == "cast":
        return operands[0].astype(node.dtype)
    return ARRAY_FUNCTIONS[node.function](*operands)


def _reduce(node: Node, x: Any) -> Any:
    combiner, axes = node.attrs
    return getattr(np, COMBINERS[combiner]).reduce(x, axis=axes, dtype=node.dtype)


def _update(node: Node, base: Any, part: Any, index: Any = 0) -> Any:
    found = np.array(base, order="C")
    places = node.place.positions(int(index))
    flat = found.reshape(-1)
    flat[places] = part if node.attrs[0] == "set" else flat[places] + part
    return found


def _assemble(node: Node, *parts: Any) -> Any:
    found = np.zeros(node.shape, node.dtype)
    flat = found.reshape(-1)
    for place, part in zip(node.attrs[0], parts, strict=True):
        flat[place.positions()] = part
    return found


def _take(_: Node, x: Any, positions: Any) -> Any:
    return np.take(_flat(x), positions, mode="clip")


def _put(node: Node, base: Any, positions: Any, values: Any) -> Any:
    found = np.array(base, order="C")
    flat = found.reshape(-1)
    places = np.clip(_flat(positions), 0, max(0, flat.size - 1))
    if node.attrs[0] == "set":
        for place, value in zip(places.tolist(), _flat(values), strict=True):
            flat[place] = value
    else:
        np.add.at(flat, places, _flat(values))
    return found


def _loop(node: Node, *operands: Any) -> Any:
    loop = node.attrs[0]
    carried, invariants = operands[: loop.carried], operands[loop.carried :]
    rows: list[list[Any]] = [[] for _ in range(loop.stacked)]
    index = 0
    while index < loop.length if loop.length is not None else bool(carried[0]):
        found, _ = interpret(loop.body, [np.int64(index), *carried, *invariants])
        carried = tuple(found[: loop.carried])
        for row, value in zip(rows, found[loop.carried :], strict=True):
            row.append(value)
        index += 1
    outputs = loop.body.outputs[loop.carried :]
    stacked = [
        np.stack(row) if row else np.zeros((0, *out.shape), out.dtype)
        for row, out in zip(rows, outputs, strict=True)
    ]
    return (*carried, *stacked)


_OPERATIONS: dict[str, Callable[..., Any]] = {
    "const": lambda node: node.value,
    "view": _view,
    "elementwise": _elementwise,
    "reduce": _reduce,
    "matmul": lambda _, a, b: np.matmul(a, b),
    "update": _update,
    "assemble": _assemble,
    "take": _take,
    "put": _put,
    "iota": lambda node: np.arange(node.size, dtype=np.int64),
    "loop": _loop,
    "opaque": lambda node, *operands: node.attrs[0](*operands),
    "pick": lambda node, items: items[node.attrs[0]],
}
