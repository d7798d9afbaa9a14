"""Anomaly mode in the forward pass: traces results that leave the graph, checks for inf and NaN.

While the mode is on, every linked call is wrapped by ``observe``; otherwise tracing costs nothing.
It records two facts that the graph does not contain, for ``why_no_grad``:

- a result that left the graph although an input was in it (``no_grad``, an integer result, an
  operator without a derivative) gets a ``CutRecord``, and so do tensors computed from it;
- a node gets the records of its constant inputs in its metadata.

With ``check_finite``, a call that makes inf or NaN out of finite numbers raises.
"""

from __future__ import annotations

import linecache
import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from pullback.autograd.debug.anomaly import (
    is_anomaly_check_finite_enabled,
    observe_with,
    user_frame,
)
from pullback.autograd.graph.node import Node, UnpackedEdge, node_of, unpack_edge
from pullback.autograd.graph.views import edge_of
from pullback.dispatch.keys import REQUIRES_GRAD
from pullback.dispatch.modes import INFERENCE, get_state, is_grad_enabled
from pullback.errors import NotFiniteError
from pullback.tensor.payload import Payload
from pullback.tensor.tensor import Tensor

__all__ = ["CUTS", "CutRecord", "observe", "record_cut", "record_of", "records_of_node"]

CUTS = "cuts_"  # key in Node.metadata: the records of constant inputs


class CutRecord(NamedTuple):
    """Record of how a tensor outside the graph was computed from one inside it.

    `reason` says why it left the graph; None if all inputs were outside already.
    """

    operator: str
    place: str
    reason: str | None
    sources: tuple[CutRecord | UnpackedEdge, ...]


_records: dict[int, tuple[ref[Tensor], CutRecord]] = {}  # by the id of a living tensor


def record_of(tensor: Tensor) -> CutRecord | None:
    """Returns the record of a tensor outside the graph, or None."""
    held, record = _records.get(id(tensor), (None, None))
    return record if held is not None and held() is tensor else None


def records_of_node(node: Node) -> list[CutRecord]:
    """Returns the records of the constant inputs of a node."""
    return [] if node._hooks is None else node._hooks.metadata.get(CUTS, [])


def _store(tensor: Tensor, record: CutRecord) -> None:
    key = id(tensor)
    _records[key] = (ref(tensor, partial(_records.pop, key)), record)


def observe(operator: Any, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a linked call: traces its results and checks them."""
    name = operator.name().removeprefix("pullback::").removesuffix(".default")
    writes = operator.schema.kind().name == "inplace"

    def call(*args: Any, **kwargs: Any) -> Any:
        values = [*args, *kwargs.values()]
        finite = is_anomaly_check_finite_enabled() and _all_finite(values)
        results = kernel(*args, **kwargs)
        made = list(_tensors([results]))
        if finite:
            _check_finite(name, values, made)
        _trace(name, list(_tensors(values)), made, writes)
        return results

    return call


observe_with(observe)


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


# --- numbers -------------------------------------------------------------------------------------


def _all_finite(values: Iterable[Any]) -> bool:
    for value in values:
        if isinstance(value, list | tuple):
            if not _all_finite(value):
                return False
        elif isinstance(value, Tensor):
            if not _is_finite(value._array):
                return False
        elif isinstance(value, float) and not math.isfinite(value):
            return False
    return True


def _is_finite(array: NDArray[Any] | Payload) -> bool:
    return isinstance(array, Payload) or bool(np.isfinite(array).all())


def _check_finite(name: str, values: list[Any], made: list[Tensor]) -> None:
    given = list(_tensors(values))
    if not given:  # a creation function: inf may be intended
        return
    for number, tensor in enumerate(made):
        if _is_finite(tensor._array):
            continue
        bad = "nan" if np.isnan(tensor._array).any() else "inf"
        shapes = ", ".join(str(list(t.shape)) for t in given)
        frame = user_frame()
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
        raise NotFiniteError(
            f"{name} made {bad} out of finite numbers: inputs of shape {shapes}, output {number} "
            f"of shape {list(tensor.shape)}, at {_place()}: {line}"
        )


# --- results outside the graph -------------------------------------------------------------------


def _place() -> str:
    frame = user_frame()
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _source(tensor: Tensor) -> CutRecord | UnpackedEdge | None:
    """Returns the edge of a tensor in the graph, or else its record."""
    return unpack_edge(edge_of(tensor)) if tensor._flags & REQUIRES_GRAD else record_of(tensor)


def _trace(name: str, given: list[Tensor], made: list[Tensor], writes: bool) -> None:
    for tensor in made:
        if any(tensor is value for value in given) and not writes:
            continue
        others = [value for value in given if value is not tensor]
        in_graph = bool(tensor._flags & REQUIRES_GRAD)
        lost = in_graph and writes and not is_grad_enabled()  # the write is not recorded
        if in_graph and not lost:
            _attach_to_node(tensor, [n for t in others if (n := record_of(t)) is not None])
            continue
        sources = tuple(s for t in others if (s := _source(t)) is not None)
        if not sources or (record_of(tensor) is not None and not writes):
            continue
        record = CutRecord(name, _place(), _reason(tensor, sources), sources)
        if lost:
            _attach_to_node(tensor, [record])
        else:
            _store(tensor, record)


def _attach_to_node(tensor: Tensor, records: list[CutRecord]) -> None:
    node = node_of(edge_of(tensor))
    if records and node is not None:
        node.metadata.setdefault(CUTS, []).extend(records)


def _reason(tensor: Tensor, sources: tuple[CutRecord | UnpackedEdge, ...]) -> str | None:
    if all(isinstance(source, CutRecord) for source in sources):
        return None
    if tensor.dtype.kind not in "fc":
        return f"its result is {tensor.dtype}, and only floating point and complex numbers flow"
    if get_state().modes & INFERENCE:
        return "it ran in inference_mode"
    return "it has no derivative" if is_grad_enabled() else "it ran in no_grad mode"


def record_cut(tensor: Tensor, result: Tensor, name: str) -> None:
    """Records that a method such as ``detach`` took a result out of the graph on purpose."""
    source = _source(tensor)
    if source is not None:
        _store(result, CutRecord(name, _place(), "that is what it is for", (source,)))
