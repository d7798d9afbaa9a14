"""Contents of a recorded graph, or of a graph of a program, as plain data.

Nothing is unpacked and no hook runs: saved values are read in the form in which nodes store them.
Nodes are numbered in the order in which they were recorded, leaves first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pullback.autograd.debug.anomaly import line_of
from pullback.autograd.graph.accumulate_grad import AccumulateGrad
from pullback.autograd.graph.node import (
    FREED,
    LEAF_SEQUENCE_NUMBER,
    Edge,
    Node,
    node_of,
    output_of,
    unpack_edge,
)
from pullback.autograd.graph.saved import SavedOutput
from pullback.autograd.graph.saved_hooks import Packed
from pullback.fx.graph import Graph
from pullback.fx.node import callable_name
from pullback.inspector.catalogue import catalogue
from pullback.profiler.events import profile_of
from pullback.tensor.tensor import Tensor

__all__ = ["GraphData", "NodeData", "SavedValue", "collect", "collect_program"]

_KEPT = "_kept"  # the attribute of custom functions with what save_for_backward stored


@dataclass(slots=True)
class SavedValue:
    """One value that a node keeps for its backward."""

    name: str
    shape: list[int] | None
    dtype: str
    nbytes: int
    version: str  # the version that is expected, and the present one if it differs
    state: str  # "", "freed", "packed by hooks", "nan" or "inf"
    key: int = 0  # identity of the memory: values that share it are counted once


@dataclass(slots=True)
class NodeData:
    """One node of the page."""

    id: int
    name: str
    operator: str = ""
    kind: str = "operator"  # leaf, operator, view, write, function, input, output
    shapes: list[str] = field(default_factory=list)
    dtype: str = ""
    inputs: list[int] = field(default_factory=list)
    saved: list[SavedValue] = field(default_factory=list)
    formulas: dict[str, str] = field(default_factory=dict)
    line: str = ""
    scopes: list[str] = field(default_factory=list)
    hooks: list[str] = field(default_factory=list)
    forward_time: int | None = None
    backward_time: int | None = None
    cotangent_norm: float | None = None
    state: str = ""  # "nan" or "inf" where a value of the node is not finite
    sequence: int = 0


@dataclass(slots=True)
class GraphData:
    """A graph: nodes in the order of recording, and the ids of its outputs."""

    nodes: list[NodeData]
    roots: list[int]
    index: dict[Node, int] = field(default_factory=dict)


def collect(roots: Iterable[Node]) -> GraphData:
    """Contents of everything that some nodes depend on."""
    starts = list(dict.fromkeys(roots))
    nodes = sorted(_reachable(starts), key=_order)
    index = {node: place for place, node in enumerate(nodes)}
    found = [_describe(node, place, index) for node, place in index.items()]
    _add_states(nodes, found, index)
    _add_loops(nodes, found)
    return GraphData(found, [index[node] for node in starts], index)


def _reachable(starts: list[Node]) -> list[Node]:
    seen = dict.fromkeys(starts)
    waiting = list(starts)
    while waiting:
        for target in map(node_of, waiting.pop()._edges):
            if target is not None and target not in seen:
                seen[target] = None
                waiting.append(target)
    return list(seen)


def _order(node: Node) -> tuple[bool, int]:
    return node._seq != LEAF_SEQUENCE_NUMBER, node._seq


def _describe(node: Node, place: int, index: dict[Node, int]) -> NodeData:
    data = NodeData(place, node.name())
    data.sequence = place
    data.inputs = [index[target] for target in map(node_of, node._edges) if target is not None]
    _add_outputs(data, node)
    if isinstance(node, AccumulateGrad):
        data.kind = "leaf"
        if node.variable is not None:  # None: the tensor is gone
            _add_leaf(data, node.variable)
    else:
        _add_operator(data, node)
        data.saved = list(_saved_values(node))
    _add_hooks(data, node)
    data.line = line_of(node) or ""
    measured = profile_of(node)
    if measured is not None:
        data.line = data.line or measured.line
        data.scopes = list(measured.scopes)
        data.forward_time, data.backward_time = measured.forward_time, measured.backward_time
        data.cotangent_norm = measured.cotangent_norm
        if measured.is_finite is False:
            data.state = "nan"
    return data


def _add_states(nodes: list[Node], found: list[NodeData], index: dict[Node, int]) -> None:
    """Marks the nodes that made NaN or inf: a bad saved input is the result of another node."""
    for node, data in zip(nodes, found, strict=True):
        edges = dict(zip(node._inputs, node._edges, strict=False))
        for value in data.saved:
            if value.state in ("nan", "inf"):
                source = node_of(edges.get(value.name))
                made_by = data if source is None else found[index[source]]
                made_by.state = made_by.state or value.state


def _add_outputs(data: NodeData, node: Node) -> None:
    for number in range(node._outputs):
        shape, dtype = output_of(node, number)
        if shape is not None:
            data.shapes.append(str(list(shape)))
            data.dtype = str(dtype)


def _add_leaf(data: NodeData, variable: Tensor) -> None:
    data.shapes, data.dtype = [str(list(variable.shape))], str(variable.dtype)
    meta = variable._meta
    if meta is not None and meta.role:
        data.name = meta.role
    grad = None if meta is None else meta.grad
    if grad is not None and isinstance(grad._array, np.ndarray):
        data.cotangent_norm = float(np.linalg.norm(grad._array.ravel()))
    data.state = _not_finite(variable._array)


def _add_operator(data: NodeData, node: Node) -> None:
    written = getattr(node, "fn", None)  # a write to a view: the node of the write itself
    inner = written if isinstance(written, Node) else node
    data.operator = inner._operator
    record = catalogue().get(data.operator)
    if record is None:
        data.kind = "function" if not data.operator else "operator"
    else:
        data.formulas = record.get("derivatives", {})
        is_write = record["kind"] == "inplace"
        data.kind = "view" if record["view"] else "write" if is_write else "operator"
    if isinstance(written, Node) or data.name in ("CopySlices", "CopyItem"):
        data.kind = "write"


def _add_hooks(data: NodeData, node: Node) -> None:
    hooks = node._hooks
    if hooks is None:
        return
    lists = (*hooks.tensor.values(), hooks.pre, hooks.post)
    given = [hook for group in lists for hook in group.values()]
    own = "pullback.profiler."
    data.hooks = [
        _function_name(hook)
        for hook in given
        if not getattr(hook, "__module__", "").startswith(own)
    ]


def _function_name(hook: Any) -> str:
    return str(getattr(hook, "__qualname__", None) or type(hook).__name__)


# --- saved values ---------------------------------------------------------------------------------


def _saved_values(node: Node) -> Iterator[SavedValue]:
    edges = dict(zip(node._inputs, node._edges, strict=False))
    for name in node._saves:
        value = getattr(node, name, None)
        expected = getattr(node, f"{name}_v", None)
        if type(value) is np.ndarray:  # its counter, if there is one by now, is that of an output
            source = edges.get(name, node)
            yield _array_value(name, value, _versions(0, _present_version(source)))
            continue
        values = value if type(value) is tuple else (value,)
        versions = expected if type(expected) is tuple else (expected,) * len(values)
        for number, (item, version) in enumerate(zip(values, versions, strict=False)):
            label = name if len(values) == 1 else f"{name}[{number}]"
            found = _saved_value(label, item, version)
            if found is not None:
                yield found
    kept = getattr(node, _KEPT, ())
    for number, pair in enumerate([(FREED, None)] if kept is FREED else kept or ()):
        found = _saved_value(f"saved_tensors[{number}]", *pair)
        if found is not None:
            yield found


def _saved_value(name: str, value: Any, expected: int | None) -> SavedValue | None:
    if value is FREED:
        return SavedValue(name, None, "", 0, "", "freed")
    if isinstance(value, Packed):
        return SavedValue(name, None, "", 0, "", "packed by hooks")
    version = "" if expected is None else str(expected)
    if isinstance(value, SavedOutput):
        version = _versions(value.version, value.counter[0])
        value = value.array
    elif isinstance(value, Tensor):
        counter = value._counter
        if expected is not None:
            version = _versions(expected, 0 if counter is None else counter[0])
        value = value._array
    if not isinstance(value, np.ndarray):
        return None  # an option: a number, a shape
    return _array_value(name, value, version)


def _array_value(name: str, array: NDArray[Any], version: str) -> SavedValue:
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    shape, dtype = list(array.shape), str(array.dtype)
    return SavedValue(name, shape, dtype, array.nbytes, version, _not_finite(array), id(owner))


def _present_version(edge: Edge) -> int:
    """The version of the output that an edge leads to; 0 until its counter exists."""
    node, number = unpack_edge(edge)
    extras = None if node is None else node._output_metadata.extras
    counter = None if extras is None else extras.version_counters.get(number)
    return 0 if counter is None else int(counter[0])


def _versions(expected: int, present: int) -> str:
    return str(expected) if expected == present else f"{expected}, written since: {present}"


def _not_finite(array: Any) -> str:
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fc":
        return ""
    if np.isfinite(array).all():
        return ""
    return "nan" if np.isnan(array).any() else "inf"


# --- loops ----------------------------------------------------------------------------------------


def _add_loops(nodes: list[Node], found: list[NodeData]) -> None:
    """Adds the iteration to the scopes of nodes whose call site ran more than once."""
    measured = [profile_of(node) for node in nodes]
    repeated = {record.loop[0] for record in measured if record is not None and record.loop[1]}
    for record, data in zip(measured, found, strict=True):
        if record is not None and record.loop[0] in repeated:
            code = record.loop[0][1]
            data.scopes += [f"loop in {code.co_name}", f"iteration {record.loop[1]}"]


# --- programs -------------------------------------------------------------------------------------

_KINDS = {"placeholder": "input", "output": "output", "get_attr": "leaf"}


def collect_program(graph: Graph) -> GraphData:
    """Contents of a graph of a program (``pullback.fx``), such as a compiled one."""
    index = {node: place for place, node in enumerate(graph.nodes)}
    found = []
    for node, place in index.items():
        target = node.target if isinstance(node.target, str) else callable_name(node.target)
        data = NodeData(place, node.name, sequence=place)
        data.kind = _KINDS.get(node.op, "operator")
        data.operator = target if node.op == "call_function" else ""
        data.inputs = [index[source] for source in node.all_input_nodes]
        value = node.meta.get("tensor_meta")
        if value is not None:
            data.shapes, data.dtype = [str(list(value.shape))], str(value.dtype)
        record = catalogue().get(_qualified(target))
        if record is not None:
            data.formulas = record.get("derivatives", {})
            data.kind = "view" if record["view"] else data.kind
        found.append(data)
    used = {source for data in found for source in data.inputs}
    return GraphData(found, [data.id for data in found if data.id not in used])


def _qualified(target: str) -> str:
    name = target.rpartition("ops.")[2].removeprefix("pullback.")
    return f"pullback::{name.removesuffix('.default')}"
