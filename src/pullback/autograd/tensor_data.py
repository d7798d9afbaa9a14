"""Data of a tensor: detached, as an array, printed, copied, pickled."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from pullback._cpython import get_frame
from pullback._lazy import lazy_module
from pullback.autograd.debug.anomaly import is_anomaly_enabled
from pullback.autograd.debug.forward_trace import record_cut
from pullback.autograd.forward.tangents import tangents_of
from pullback.autograd.graph.accumulate_grad import outdate_metadata
from pullback.autograd.graph.conversion import CONVERSIONS, check_nothing_lost
from pullback.autograd.graph.node import Output, next_sequence_number, unpack_edge
from pullback.autograd.graph.output_metadata import copy_metadata
from pullback.autograd.graph.saved import version
from pullback.autograd.graph.views import requires_grad, view_of
from pullback.autograd.levels import TransformLevel, leave_tape, process_levels
from pullback.dispatch.keys import DUAL, REQUIRES_GRAD
from pullback.dispatch.modes import MAPPING, TRANSFORM, get_state, is_grad_enabled
from pullback.errors import AutogradError, AutogradTypeError, InferenceError, InplaceError
from pullback.kernels.platform import NUMPY
from pullback.tensor.payload import Payload
from pullback.tensor.repr import render
from pullback.tensor.tensor import (
    TRACES,
    TRACKED,
    Tensor,
    as_inference,
    is_constant_number,
    meta_of,
    note_data,
    note_flag,
    note_made,
    note_property,
    note_read,
    register_alias,
    share_counter,
    version_of,
    wrap,
)

if TYPE_CHECKING:
    from pullback.autograd.debug import level_repr
    from pullback.inspector import html_repr
else:
    html_repr = lazy_module("pullback.inspector.html_repr")
    level_repr = lazy_module("pullback.autograd.debug.level_repr")

__all__ = ["DATA_METHODS", "detach", "detach_", "numpy"]


def _version(self: Tensor) -> int:
    if not self._flags & TRACKED:
        raise InferenceError("Inference tensors do not track version counter.")
    found = version(self)
    if TRACES:
        note_property(self, "_version", found)
    return found


def detach(self: Tensor) -> Tensor:
    """The same memory without history; writes to it are noticed by both."""
    tensor = wrap(self._array)
    if TRACES:
        note_made(tensor, self)
    if not self._flags & TRACKED:
        return as_inference(tensor)
    share_counter(tensor, self)
    if is_anomaly_enabled():
        record_cut(self, tensor, "detach")
    return tensor


def detach_(self: Tensor) -> Tensor:
    """Cuts the tensor itself from its history, and from its tangents."""
    if view_of(self) is not None:
        raise InplaceError(
            "Can't detach views in-place. Use detach() instead: the base would keep its history."
        )
    if TRACES:
        note_flag(self, False)
    leave_tape()
    if self._edge is not None:
        version_of(self)  # before its node changes: saved copies share the counter
        node, number = unpack_edge(self._edge)
        lists = node.make_hooks()
        lists.detached.add(number)
        self._edge = None
        meta_of(self).detached = (ref(lists), number, next_sequence_number())
    if self._flags & DUAL:
        meta = meta_of(self)
        meta.tangents = meta.lazy_array = None
    self._flags &= ~(REQUIRES_GRAD | DUAL)
    return self


def _get_data(self: Tensor) -> Tensor:
    """The same memory with neither history nor version: no version check finds writes to it."""
    tensor = wrap(self._array)
    if TRACES:
        note_made(tensor, self)
    if is_anomaly_enabled():
        record_cut(self, tensor, "data")
    if not self._flags & TRACKED:
        return as_inference(tensor)
    counter = self._counter
    if counter is not None and len(counter) > 2:
        register_alias(counter, tensor)
    return tensor


def _set_data(self: Tensor, new: Tensor) -> None:
    if not isinstance(new, Tensor):
        raise AutogradTypeError(
            f"data: Variable data has to be a tensor, but got {type(new).__name__}"
        )
    if self._flags & REQUIRES_GRAD and new.dtype.kind not in "fc":
        raise AutogradError(
            f"data set to a tensor that requires gradients must be floating point or complex "
            f"dtype, not {new.dtype}"
        )
    is_traced = TRACES and note_data(self, new)
    if not is_traced and isinstance(self._array, Payload) != isinstance(new._array, Payload):
        raise AutogradError(
            f"data: the tensor and the new data have incompatible tensor types: "
            f"{type(self._array).__name__} and {type(new._array).__name__}"
        )
    leave_tape()
    version_of(self)  # as long as it has the memory that its node may have saved
    if new.shape != self.shape or new.dtype != self.dtype:
        _outdate_node_metadata(self, new._array)
    if self._edge is not None:
        node, number = unpack_edge(self._edge)
        node.make_hooks().replaced[number] = new._array
    self._array = new._array


def _del_data(_: Tensor) -> None:
    raise AutogradError("Deleting tensor data is not allowed. Delete tensor instead!")


def _outdate_node_metadata(tensor: Tensor, array: NDArray[Any]) -> None:
    """Marks the output metadata of a tensor as outdated before its array is replaced."""
    view = view_of(tensor)
    edge = tensor._edge if view is None else view.edge
    node, number = unpack_edge(edge)
    if node is None:
        outdate_metadata(tensor, array)
        return
    # An edge that is a node implies the node's output metadata, which is no longer valid.
    if view is not None:
        view.edge = Output(node, number)
    else:
        tensor._edge = Output(node, number)
    if node._outputs == 1:  # what was saved of it may give other gradients
        node._output_metadata = copy_metadata(node._output_metadata)


def numpy(self: Tensor, *, force: bool = False) -> NDArray[Any]:
    """A view of the tensor's memory; with `force`, also of a tensor that requires grad.

    The array object is a new one: setting its shape or dtype does not change the tensor.
    """
    if requires_grad(self) and is_grad_enabled() and not force:
        raise AutogradError(
            "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
        )
    # Inside the kernel of a custom operator no tangent is followed: its forward rule does that.
    follows = not force and get_state().keep & DUAL
    if follows and any(isinstance(level, TransformLevel) for level in tangents_of(self)):
        raise AutogradError(
            "Can't call numpy() on a Tensor with a tangent, inside a function that jvp or jacfwd "
            "differentiates: the tangent would be lost. Use tensor.detach().numpy() instead."
        )
    if TRACES:
        note_read(self, "numpy()", shares=True)
    array = self._array
    if isinstance(array, Payload):
        return array.as_numpy()
    return array.view()  # type: ignore[no-any-return]


def __dlpack__(  # noqa: N807 - DLPack's name
    self: Tensor,
    *,
    stream: Any = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """The memory, for another array library; only of a tensor that does not require grad."""
    check_nothing_lost(self)
    array: Any = numpy(self)
    if NUMPY < (2, 1):  # accepts no other options, and exports version 0 of the protocol
        if dl_device is not None and dl_device != array.__dlpack_device__():
            raise BufferError(f"a tensor on the CPU cannot be exported to device {dl_device}")
        return (array.copy() if copy else array).__dlpack__(stream=stream)
    return array.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)


def __dlpack_device__(self: Tensor) -> tuple[int, int]:  # noqa: N807 - DLPack's name
    """The device of the memory, as DLPack numbers it."""
    return self._array.__dlpack_device__()  # type: ignore[no-any-return]


def __format__(self: Tensor, spec: str) -> str:  # noqa: N807 - Python's name
    """A single number as Python formats it, everything else as it prints."""
    return format(self.item(), spec) if spec and not self.ndim else format(str(self), spec)


def __str__(self: Tensor) -> str:  # noqa: N807 - Python's name
    """The text of a number of a NumPy program, else the representation."""
    return str(self.dtype.type(self.item())) if is_constant_number(self) else repr(self)


def __repr__(self: Tensor) -> str:  # noqa: N807 - Python's name
    suffixes = []
    try:
        node = self.grad_fn
    except InplaceError:
        suffixes.append("grad_fn=<Invalid>")
    else:
        if node is not None:
            suffixes.append(f"grad_fn=<{node.name()}>")
        elif requires_grad(self):
            suffixes.append("requires_grad=True")
    array = self._array
    if self._flags & DUAL or get_state().modes & (TRANSFORM | MAPPING) or process_levels:
        return level_repr.render_with_levels(self, suffixes)
    if isinstance(array, Payload):
        return f"tensor({', '.join([repr(array), *suffixes])})"
    note_read(self, "repr()")
    return render(np.asarray(array), suffixes)


def _repr_html_(self: Tensor) -> str:
    """The form of a tensor in notebooks."""
    return html_repr.tensor_html(self)


def __deepcopy__(self: Tensor, memo: dict[int, Any]) -> Tensor:  # noqa: N807 - Python's name
    if not self.is_leaf:
        raise AutogradError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
            "protocol, and this tensor has a history that cannot be copied; copy x.detach() instead"
        )
    found = memo.get(id(self))
    if found is not None:
        return found  # type: ignore[no-any-return]
    array = self._array
    if TRACES and type(self) is Tensor:
        copy = self.detach().clone()  # recorded: each run of a graph makes a copy
    elif isinstance(array, Payload):
        copy = wrap(array.deepcopy(memo))
    else:
        copy = wrap(array.copy(order="K"))
    memo[id(self)] = copy
    copy._flags |= self._flags & REQUIRES_GRAD
    if self._meta is not None and self._meta.grad is not None:
        meta_of(copy).grad = __deepcopy__(self._meta.grad, memo)
    if self._meta is not None and self._meta.role:
        meta_of(copy).role = self._meta.role
    return copy


def __reduce__(self: Tensor) -> tuple[Callable[..., Tensor], tuple[Any, ...]]:  # noqa: N807
    if requires_grad(self) and not self.is_leaf:
        _refuse_task_border(self)
    if TRACES:
        note_read(self, "pickling", shares=True)
    array = self._array
    return _restored, (
        array if isinstance(array, Payload) else np.asarray(array),
        requires_grad(self),
        *([self._meta.role] if self._meta is not None and self._meta.role else []),
    )


_TASK_BORDERS = (
    *("distributed.protocol", "loky.backend", "multiprocessing.reduction"),
    "pullback.distributed.encoding",
)


def _refuse_task_border(tensor: Tensor) -> None:
    """Raises where a tensor with a history is pickled for another process, which loses it.

    A pickle for a file is PyTorch's: the tensor comes back as a leaf.
    """
    frame: Any = get_frame(1)
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith(_TASK_BORDERS):
            node = tensor.grad_fn
            raise AutogradError(
                f"a tensor with a history ({node.name()}) cannot be sent to another process: "
                f"gradients do not pass the border of a task. Send x.detach(), or differentiate "
                f"inside the task (pullback.distributed.value_and_grad_over)"
            )
        frame = frame.f_back


def _restored(array: NDArray[Any], grad: bool, role: str = "") -> Tensor:
    """A tensor as it comes out of a pickle: a leaf."""
    tensor = wrap(array).clone() if TRACES else wrap(array)  # each run of a graph makes a copy
    if grad:
        tensor._flags |= REQUIRES_GRAD
    if role:
        meta_of(tensor).role = role
    return tensor


DATA_METHODS: dict[str, Any] = {
    **CONVERSIONS,
    "_version": property(_version),
    "data": property(_get_data, _set_data, _del_data),
    "detach": detach,
    "detach_": detach_,
    "numpy": numpy,
    "__dlpack__": __dlpack__,
    "__dlpack_device__": __dlpack_device__,
    "__format__": __format__,
    "__repr__": __repr__,
    "__str__": __str__,
    "_repr_html_": _repr_html_,
    "__deepcopy__": __deepcopy__,
    "__reduce__": __reduce__,
}
