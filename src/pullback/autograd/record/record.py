"""Recording: how a call becomes a node. What generated autograd kernels share.

A generated kernel for a plain operation makes its node itself and calls only ``recorded``. The
general kernels of ``around.py`` serve every other case (a user's kernel underneath, saved-tensor
hooks) and make the same graph with ``attach``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pullback._cpython import register_views
from pullback.autograd.forward.tangents import set_tangent, tangents_of
from pullback.autograd.graph.inplace import rebase_history, write
from pullback.autograd.graph.node import (
    Edge,
    Node,
    Output,
    describe,
    describe_all,
    edge_to,
    next_sequence_number,
    sequence_counter,
)
from pullback.autograd.graph.output_metadata import (
    FLOAT64,
    FLOAT64_METADATA,
    UNDESCRIBED,
    OutputMetadata,
    intern_metadata,
)
from pullback.autograd.graph.payload_nodes import mark
from pullback.autograd.graph.saved import version
from pullback.autograd.graph.views import EDGED, creation_now, edge_of, in_two_steps, make_view
from pullback.autograd.namespaces import tensors
from pullback.dispatch.keys import DUAL, PLAIN_VIEW, REQUIRES_GRAD
from pullback.dispatch.modes import get_state
from pullback.interrupts import uninterrupted_entry
from pullback.tensor.meta import Creation, Step, View
from pullback.tensor.payload import Payload, shares_memory
from pullback.tensor.tensor import CPU_FLAGS, Tensor, fresh, register_alias, version_of, wrap

__all__ = [
    "EDGED",
    "RECORDED_FLAGS",
    "attach",
    "edge_of",
    "record_inplace",
    "record_view",
    "record_views",
    "recorded",
    "recorded_list",
    "recorded_several",
    "save_before_write",
    "save_list",
]

_new = object.__new__
_ndarray = np.ndarray
_asarray = np.asarray
RECORDED_FLAGS = CPU_FLAGS | REQUIRES_GRAD
_PLAIN_FLAGS = CPU_FLAGS | PLAIN_VIEW


def recorded(node: Node, array: NDArray[Any] | Payload) -> Tensor:
    """The tensor of a node's only result."""
    if type(array) is not _ndarray:
        array = _asarray(array)
    # Everything recorded comes through here, so the number is read without a call of our own.
    node._seq = sequence_counter()()
    shape, dtype = array.shape, array.dtype
    try:
        node._output_metadata = (
            FLOAT64_METADATA[shape] if dtype is FLOAT64 else OutputMetadata(shape, dtype)
        )
    except KeyError:
        node._output_metadata = intern_metadata(shape, dtype)
    tensor = _new(Tensor)
    tensor._array = array
    tensor._counter = tensor._meta = None
    if dtype is FLOAT64 or dtype.kind in "fc":
        tensor._flags = RECORDED_FLAGS
        tensor._edge = node
    else:
        tensor._flags = CPU_FLAGS
        tensor._edge = None
    return tensor


def recorded_several(
    node: Node, results: Iterable[Any], differentiable: tuple[bool, ...]
) -> tuple[Any, ...]:
    """The tensors of a node with several results; only some may be differentiable."""
    outputs = [_asarray(result) for result in results]
    node._seq = sequence_counter()()
    describe_all(node, outputs)
    made = []
    modes = get_state().modes
    for number, array in enumerate(outputs):
        if modes:
            tensor = fresh(array)
        else:  # the same without a call
            tensor = _new(Tensor)
            tensor._array = array
            tensor._counter = tensor._meta = tensor._edge = None
            tensor._flags = CPU_FLAGS
        if differentiable[number] and array.dtype.kind in "fc":
            tensor._flags = RECORDED_FLAGS
            tensor._edge = Output(node, number) if number else node
        made.append(tensor)
    return tuple(made)


def save_list(node: Node, name: str, list_: list[Tensor | None]) -> None:
    """Keeps a list of inputs for the backward pass."""
    setattr(node, name, tuple(list_))
    setattr(node, name + "_v", tuple(map(version, list_)))


def save_before_write(node: Node, name: str, tensor: Tensor, edge: Edge) -> None:
    """Keeps a copy of what a write is about to replace, with the history that it had."""
    copy = wrap(tensor._array.copy())
    copy._flags = tensor._flags & ~DUAL
    copy._edge = edge
    copy._counter = [0]  # a new one: the node of the edge has that of the written memory
    for level, tangent in tangents_of(tensor).items():
        set_tangent(copy, level, tensors.clone(tangent))
    setattr(node, name, copy)
    setattr(node, name + "_v", version(copy))


@uninterrupted_entry
def record_inplace(node: Node | None, tensor: Tensor, result: Any, name: str) -> Tensor:
    """Writes a result into a tensor, and makes `node` its history if there is one."""
    write(tensor, result, name)
    array = tensor._array
    if node is not None and array.dtype.kind in "fc":
        node._seq = sequence_counter()()
        describe(node, array.shape, array.dtype)
        rebase_history(tensor, node)
    return tensor


@register_views
def record_view(node: Node | None, parent: Tensor, array: Any, step: Step) -> Tensor:
    """The tensor of a result that shares the parent's memory; a copy is an ordinary result."""
    whole, counter = parent._array, parent._counter
    is_view = False
    if type(array) is type(whole) is _ndarray:
        # What has the parent's memory, or the memory that the parent has, needs no search for it.
        base = array.base
        is_view = base is whole or (base is not None and base is whole.base)
    if is_view and (counter is None or type(counter) is list):
        # Programs that index in loops make nothing but such views, so it takes no further call.
        if counter is None:
            counter = version_of(parent)
        tensor = _new(Tensor)
        tensor._array = array
        tensor._edge = None
        tensor._counter = counter
        tensor._meta = view = View()
        above = parent._meta
        if type(above) is View:
            view.base = above.base
            view.step = (in_two_steps, above.step, step)
            if above.creation is not Creation.RECORDED:
                view.creation = above.creation
        else:
            view.base = parent
            view.step = step
        view.version = counter[0]
        if node is not None:
            node._seq = sequence_counter()()
            if array.dtype is FLOAT64 and node._output_metadata is UNDESCRIBED:
                try:
                    node._output_metadata = FLOAT64_METADATA[array.shape]
                except KeyError:
                    node._output_metadata = intern_metadata(array.shape, FLOAT64)
            else:
                describe(node, array.shape, array.dtype)
            tensor._flags = RECORDED_FLAGS
            view.edge = node
        else:
            tensor._flags = _PLAIN_FLAGS
            view.edge = None
            now = creation_now()
            if now is not Creation.RECORDED:
                view.creation = now
        view.base_edge = view.base._edge
        if len(counter) > 2:  # a counter with a list of aliases: see share_counter
            register_alias(counter, tensor)
        return tensor
    if not is_view and array.size and not shares_memory(array, whole):
        copy = fresh(array)
        if node is not None:
            attach(node, copy, (True,))
        return copy
    if node is not None:
        node._seq = sequence_counter()()
        describe(node, array.shape, array.dtype)
        if isinstance(array, Payload):  # a view of an array may be a payload: `_add_level`
            mark(node)
    return make_view(parent, array, step, node)


def recorded_list(node: Any, results: Iterable[Any]) -> list[Tensor]:
    """The tensors of a node whose result is a list."""
    results = list(results)
    node._outputs = len(results)
    return list(recorded_several(node, results, (True,) * len(results)))


def record_views(node: Any, parent: Tensor, results: Iterable[Any], step: Step) -> list[Tensor]:
    """The tensors of several views of one parent; `step` makes each again, given its number."""
    results = list(results)
    if node is not None:
        node._outputs = len(results)
        node._seq = next_sequence_number()
        describe_all(node, results)
    return [
        make_view(parent, array, (*step, number), node, number)
        for number, array in enumerate(results)
    ]


def attach(node: Any, results: Any, differentiable: tuple[bool, ...]) -> None:
    """Makes a node the history of results that another kernel has computed."""
    made = results if isinstance(results, tuple | list) else [results]
    node._seq = next_sequence_number()
    if isinstance(results, list):
        node._outputs = len(made)
        differentiable = (True,) * len(made)
    describe_all(node, list(made))
    for number, tensor in enumerate(made):
        if differentiable[number] and tensor.dtype.kind in "fc":
            tensor._flags |= REQUIRES_GRAD
            if tensor._edge is not None:
                version_of(tensor)  # while its old node is known, if a kernel has recorded it
            tensor._edge = edge_to(node, number)
