"""``why_no_grad``: explains where the path from a result to an input was cut.

The graph contains only recorded operations. If the forward pass ran in anomaly mode
(``forward_trace.py``), the cut is known exactly; otherwise the explanation uses what is visible
afterwards (dtypes, shared memory, the leaves at the end of the history) and says how to learn more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np

from pullback.autograd.debug.anomaly import line_of
from pullback.autograd.debug.forward_trace import CutRecord, record_of, records_of_node
from pullback.autograd.graph.accumulate_grad import AccumulateGrad
from pullback.autograd.graph.node import FREED, Node, UnpackedEdge, node_of, unpack_edge
from pullback.autograd.graph.views import edge_of, requires_grad, view_of
from pullback.autograd.record.not_implemented import WarnNotImplemented
from pullback.errors import AutogradTypeError
from pullback.tensor.meta import Creation, View
from pullback.tensor.tensor import TENSOR_TYPES, TRACKED, Tensor

__all__ = ["why_no_grad"]

_Step: TypeAlias = "CutRecord | UnpackedEdge"
_RUN_AGAIN = (
    "To learn exactly where, compute y inside `with pullback.autograd.set_detect_anomaly(True):` "
    "and call why_no_grad again."
)
_MAX_NAMES = 6  # nodes of a path, and leaves of a history, that are printed


def why_no_grad(y: Tensor, x: Tensor) -> str:
    """Explains why ``grad(y, x)`` has no gradient, or which path it takes.

    The answer is exact where y was computed in anomaly mode, and says so where it is a guess.

    >>> import pullback as pb
    >>> x = pb.tensor([1.0, 2.0], requires_grad=True)
    >>> y = (x.detach() * 3.0).sum()
    >>> print(why_no_grad(y, x).split(":")[0])
    y has no history
    >>> with pb.autograd.set_detect_anomaly(True):
    ...     y = (x.detach() * 3.0).sum()
    >>> print(why_no_grad(y, x).split(" at ")[0])
    y depends on x, but the path is cut by detach
    """
    for name, tensor in (("y", y), ("x", x)):
        if not isinstance(tensor, Tensor):
            raise AutogradTypeError(
                f"why_no_grad: {name} must be a Tensor, not {type(tensor).__name__}"
            )
    if not requires_grad(x):
        advice = "Call x.requires_grad_() before y is computed." if x.dtype.kind in "fc" else ""
        return f"x does not require grad: {_explain_no_history(x)} {advice}".rstrip()
    target = unpack_edge(edge_of(x))
    start: _Step | None = unpack_edge(edge_of(y)) if requires_grad(y) else record_of(y)
    if y is x:
        return "There is a path: y is x."
    path = None if start is None else _path(start, target)
    if path is not None:
        return _describe_path(path)
    if start is None:
        shared = _describe_shared_memory(y, x)
        return f"y has no history: {shared or _explain_no_history(y)} {_RUN_AGAIN}"
    return _explain_unreachable(start, y, x)


# --- paths ---------------------------------------------------------------------------------------


def _next(step: _Step) -> Iterator[_Step]:
    """Yields the next steps of a gradient, including those behind cuts."""
    if isinstance(step, CutRecord):
        yield from step.sources
        return
    node, _ = step
    if node is not None:
        yield from map(unpack_edge, node._edges)
        yield from records_of_node(node)


def _key(step: _Step) -> int:
    return id(step) if isinstance(step, CutRecord) else id(step[0])


def _path(start: _Step, target: UnpackedEdge) -> list[_Step] | None:
    """Finds the path from a result to an input with the fewest cuts, and of those the shortest."""
    before: dict[int, _Step | None] = {_key(start): None}
    if start == target:
        return [start]
    waiting, beyond = deque([start]), deque[_Step]()
    while waiting or beyond:
        if not waiting:
            waiting, beyond = beyond, waiting
        step = waiting.popleft()
        for following in _next(step):
            if following == target:
                return _unwind(before, step, following)
            if _key(following) in before or following == (None, 0):
                continue
            before[_key(following)] = step
            cut = isinstance(following, CutRecord) and following.reason is not None
            (beyond if cut else waiting).append(following)
    return None


def _unwind(before: dict[int, _Step | None], last: _Step, target: UnpackedEdge) -> list[_Step]:
    path: list[_Step] = [target]
    step: _Step | None = last
    while step is not None:
        path.append(step)
        step = before[_key(step)]
    return path[::-1]


def _describe_path(path: list[_Step]) -> str:
    cuts = [step for step in path if isinstance(step, CutRecord) and step.reason is not None]
    if cuts:
        cut, more = cuts[0], len(cuts) - 1
        first = next(number for number, step in enumerate(path) if step is cut)
        words = [
            f"y depends on x, but the path is cut by {cut.operator} at {cut.place}: {cut.reason}."
        ]
        if first:
            words.append(f"It comes into y through {_names(path[:first])}.")
        if more:
            words.append(f"There are {more} more cuts on that path.")
        return " ".join(words)
    nodes = [step[0] for step in path if not isinstance(step, CutRecord)]
    ends = next((n for n in nodes if isinstance(n, WarnNotImplemented)), None)
    if ends is not None:
        return f"There is a path, but gradients end on it: {ends.complaint}."
    return (
        f"There is a path from y to x: {_names(path)}. So grad(y, x) has a gradient, unless a "
        f"custom Function on it returns None."
    )


def _names(steps: list[_Step]) -> str:
    names = []
    for step in steps:
        if isinstance(step, CutRecord):
            names.append(f"{step.operator} (at {step.place})")
        elif step[0] is not None:
            line = line_of(step[0])
            names.append(step[0].name() + ("" if line is None else f" (at {line})"))
    if len(names) > _MAX_NAMES:
        names[_MAX_NAMES // 2 : -_MAX_NAMES // 2] = [f"… {len(names) - _MAX_NAMES} more …"]
    return " <- ".join(names)


# --- evidence without trace records
# ----------------------------------------------------------------


def _explain_no_history(tensor: Tensor) -> str:
    """Explains why a tensor is not in the graph, from its record and flags."""
    meta, record = tensor._meta, record_of(tensor)
    if record is not None and record.reason is not None:
        return f"it was made by {record.operator} at {record.place}, and {record.reason}."
    if tensor.dtype.kind not in "fc":
        return f"it is {tensor.dtype}, and only floating point and complex tensors have gradients."
    if not tensor._flags & TRACKED:
        return "it was made in inference_mode."
    if meta is not None and meta.detached:
        return "detach_() has cut it from its history."
    if type(meta) is View and meta.creation is Creation.NO_GRAD:
        return "it is a view that was made in no_grad mode."
    return (
        "it was made in no_grad mode, from tensors that do not require grad (detach(), .data, "
        "NumPy), or by an operator without a derivative."
    )


def _describe_shared_memory(tensor: Tensor, x: Tensor) -> str | None:
    """Explains how a tensor without history shares the memory of x; None if it does not."""
    if tensor._counter is not None and tensor._counter is x._counter:
        return "it shares x's memory and version, as x.detach() does."
    arrays = (tensor._array, x._array)
    if all(type(array) is np.ndarray for array in arrays) and np.may_share_memory(*arrays):
        return "it shares x's memory, as x.data, or an array of x's elements, does."
    return None


def _explain_unreachable(start: _Step, y: Tensor, x: Tensor) -> str:
    seen = _reachable(start)
    for node in seen:
        for tensor in _constants(node):
            shared = _describe_shared_memory(tensor, x)
            if shared is not None:
                return f"No path is recorded, but {_names([(node, 0)])} uses a constant: {shared}"
    traced = all(line_of(node) for node in seen if not isinstance(node, AccumulateGrad))
    leaves = [node.variable for node in seen if isinstance(node, AccumulateGrad)]
    ends = (
        ", ".join(f"a leaf of shape {list(leaf.shape)}" for leaf in leaves[:_MAX_NAMES])
        or "no leaf"
    )
    more = f" and {len(leaves) - _MAX_NAMES} more" if len(leaves) > _MAX_NAMES else ""
    words = f"x is no part of y's history, which ends at {ends}{more}."
    view = view_of(x)
    base = None if view is None else node_of(edge_of(view.base))
    if base is not None and base in seen:
        words += " It contains the base that x is a view of, but not this view."
    elif x._edge is not None and any(
        node_of(edge) in seen for edge in unpack_edge(x._edge)[0]._edges
    ):
        words += (
            " It contains a node that x itself was computed from: perhaps x was written to, or "
            "assigned anew, after y had been computed."
        )
    if traced and y._flags & TRACKED:
        return f"{words} So x was not used to compute y, unless by way of NumPy or of numbers."
    return (
        f"{words} Either x was not used, or where nothing is recorded: in no_grad mode, after "
        f"detach(), as integers, by way of NumPy or of numbers. {_RUN_AGAIN}"
    )


def _reachable(start: _Step) -> dict[Node, None]:
    seen: dict[Node, None] = {}
    waiting = [start]
    known: set[int] = set()
    while waiting:
        step = waiting.pop()
        if _key(step) in known:
            continue
        known.add(_key(step))
        if not isinstance(step, CutRecord) and step[0] is not None:
            seen[step[0]] = None
        waiting.extend(_next(step))
    return seen


def _constants(node: Node) -> Iterator[Tensor]:
    """Yields saved inputs of a node that are not in the graph."""
    for name in node._saves_tensors:
        value = getattr(node, name, None)
        for tensor in value if type(value) is tuple else (value,):
            if value is not FREED and type(tensor) in TENSOR_TYPES and not requires_grad(tensor):
                yield tensor
