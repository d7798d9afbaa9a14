"""Values that nodes save for the backward pass, and the check that they were not written to.

A node stores an input as the tensor itself, beside the version it had. An output cannot be stored
as its tensor, which would hold the node that holds it; a ``SavedOutput`` keeps array and counter.
Kernels of plain operations store the array alone, of their result and of inputs that are results of
other nodes and have no counter yet: one object less for each, while graphs grow. The node of the
result has its version counter. ``saved_output`` and ``saved_input`` read all forms.
What went through the hooks of ``saved_tensors_hooks`` is stored as an object of ``saved_hooks.py``,
which has a method ``unpack(node)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from pullback._lazy import lazy_module
from pullback.autograd.debug.anomaly import is_anomaly_enabled
from pullback.autograd.engine.current_task import NeedsPassError, current_graph_task
from pullback.autograd.graph.node import (
    FREED,
    Edge,
    Node,
    edge_to,
    freed_error,
    node_of,
    unpack_edge,
)
from pullback.autograd.graph.output_metadata import OutputExtras
from pullback.dispatch.keys import DUAL, REQUIRES_GRAD, SUBCLASS
from pullback.errors import AutogradError, SavedVersionError
from pullback.tensor.meta import Meta, View
from pullback.tensor.tensor import (
    COUNTING,
    CPU_FLAGS,
    ContentVersion,
    Tensor,
    as_subclass,
    meta_of,
    version_of,
    wrap,
)

if TYPE_CHECKING:
    from pullback.autograd.graph import rewound
else:
    rewound = lazy_module("pullback.autograd.graph.rewound")

__all__ = [
    "SavedOutput",
    "input_array",
    "load_array",
    "load_output_array",
    "load_output_tensor",
    "load_tensor",
    "output_array",
    "output_edge",
    "output_from",
    "restore_tangents",
    "save_output",
    "saved_input",
    "saved_output",
    "version",
    "version_error",
]


def version(tensor: Tensor | None) -> int:
    """The version of a tensor: the number of writes to its memory."""
    counter = None if tensor is None else tensor._counter
    return 0 if counter is None else counter[0]


class SavedOutput:
    """A result that its own node keeps, without a reference cycle.

    The result of a write to a view has its place in the graph behind the base: `slices` is a weak
    reference to the base's node of that write.
    """

    __slots__ = ("array", "counter", "flags", "number", "slices", "tangents", "version")
    outlasts_writes = False  # the version check raises after one

    def __init__(self, tensor: Tensor, number: int):
        self.array = tensor._array
        self.counter = version_of(tensor)
        self.version = self.counter[0]
        self.flags = tensor._flags
        self.number = number
        self.slices = None if tensor._meta is None else _written_base(tensor._meta)
        self.tangents: dict[Any, Tensor] | None = None


def _written_base(meta: Meta) -> ref[Node] | None:
    edge = meta.base._edge if type(meta) is View else None
    node = node_of(edge)
    # The node of a write to a view is looked for later; most others cannot be referenced weakly.
    return ref(node) if node is not None and type(node).__weakrefoffset__ else None


def output_edge(node: Node, number: int, slices: ref[Any] | None) -> Edge:
    """The place in the graph of a result that `node` has saved."""
    written = None if slices is None else slices()
    if written is not None and getattr(written, "fn", None) is node:
        return written.view_edge()  # type: ignore[no-any-return]
    return edge_to(node, number)


def save_output(tensor: Tensor, number: int = 0) -> SavedOutput:
    """The form in which a node stores its own result."""
    return SavedOutput(tensor, number)


def saved_output(node: Any, name: str) -> Any:
    """The stored form of a result; a bare array is converted to a ``SavedOutput`` first."""
    value = getattr(node, name, None)  # no value where none was needed
    if type(value) is np.ndarray and name in node._saves_results:
        with COUNTING:  # at this moment another thread could do the same
            value = getattr(node, name)
            if type(value) is np.ndarray:
                value = output_from(value, node.shared_counter([0]))
                setattr(node, name, value)
    return value


def output_array(node: Node, name: str) -> Any:
    """A saved result as an array, checked: for passes on raw arrays, where versions are counted."""
    value = getattr(node, name, None)
    if type(value) is np.ndarray and _is_unwritten(node._output_metadata.extras):
        return value
    return load_output_array(node, saved_output(node, name))


def saved_input(node: Any, name: str) -> tuple[Any, Any]:
    """The stored form of an input, and its version when it was saved.

    A bare array becomes a tensor with its history. Its counter is known behind the edge.
    """
    value = getattr(node, name, None)
    if type(value) is not np.ndarray:
        return value, getattr(node, name + "_v", 0)
    edge = node._edges[node._inputs.index(name)]
    producer, number = unpack_edge(edge)
    tensor = wrap(value)
    tensor._flags = CPU_FLAGS | REQUIRES_GRAD
    tensor._edge = edge
    assert producer is not None
    extras = producer._output_metadata.extras
    if extras is not None:
        tensor._counter = extras.version_counters.get(number)
        hooks = extras.hooks
        if hooks is not None:
            if number in hooks.replaced:
                tensor._array = hooks.replaced[number]
            if number in hooks.detached:
                meta_of(tensor).detached = (ref(hooks), number, node._seq + 1)
    return tensor, 0


def input_array(node: Node, name: str) -> Any:
    """A saved input as an array, checked: for passes on raw arrays, where it is no common case."""
    value = getattr(node, name, None)
    if type(value) is np.ndarray:
        edge = node._edges[node._inputs.index(name)]
        if edge is not None and _is_unwritten(edge._output_metadata.extras):
            return value
    return load_array(node, *saved_input(node, name))


def _is_unwritten(extras: OutputExtras | None) -> bool:
    """Whether an output has a version counter at zero, and neither hooks nor other data."""
    if extras is None or extras.hooks is not None:
        return False
    counter = extras.version_counters.get(0)
    return counter is not None and not counter[0]


def output_from(array: NDArray[Any], counter: list[Any]) -> SavedOutput:
    """The only result of a node, which has stored it as an array and a counter that was new."""
    saved: SavedOutput = object.__new__(SavedOutput)
    saved.array = array
    saved.counter = counter
    saved.version = saved.number = 0
    saved.flags = CPU_FLAGS | REQUIRES_GRAD if array.dtype.kind in "fc" else CPU_FLAGS
    saved.slices = saved.tangents = None
    return saved


def load_array(node: Node, value: Any, expected: Any) -> Any:
    """A saved input as an array, checked; None where none was needed."""
    if type(value) is Tensor:
        counter = value._counter
        if (0 if counter is None else counter[0]) == expected and (
            value._meta is None or not value._meta.detached
        ):
            return value._array
        if not value._flags & DUAL and version(value) != expected:
            return rewound.rebuild_array(node, value, expected)
    _check_known(value)
    loaded = load_tensor(node, value, expected)
    if isinstance(loaded, list):
        return [None if t is None else t._array for t in loaded]
    return None if loaded is None else loaded._array


def _check_known(value: Any) -> None:
    """Raises ``NeedsPassError`` where a pass that is not published is about to call a hook."""
    values = value if type(value) is tuple else (value,)
    if any(hasattr(saved, "unpack") for saved in values) and current_graph_task() is None:
        raise NeedsPassError


def load_tensor(node: Node, value: Any, expected: Any) -> Any:
    """A saved input with its place in the graph, checked; None where none was needed."""
    if value is None:
        return None
    if value is FREED:
        raise freed_error(node)
    if type(value) is tuple:
        return [load_tensor(node, t, v) for t, v in zip(value, expected, strict=True)]
    if isinstance(value, Tensor):
        if version(value) != expected:
            return rewound.rebuild_input(node, value, expected)
        if value._meta is not None and value._meta.detached and _was_cut(node, value._meta):
            raise AutogradError(
                f"{node.name()}: Trying to use a saved tensor that has been detached in-place, "
                f"i.e. with .detach_(), and so has lost its history. Use detach() instead."
            )
        return value
    return value.unpack(node)


def _was_cut(node: Node, meta: Meta) -> bool:
    """Whether a node had saved a tensor when ``detach_`` took its history; later it is no matter.

    Then an edge leads there still. User code may have saved what is none of its inputs.
    """
    assert meta.detached is not None
    lists, number, since = meta.detached
    cut = lists()
    for edge in node._edges:
        behind, place = unpack_edge(edge)
        if behind is not None and cut is not None and behind._hooks is cut and place == number:
            return True
    return not node._is_direct and node._seq < since


def load_output_array(node: Node, value: Any) -> Any:
    """A saved result as an array, checked."""
    if type(value) is SavedOutput and value.counter[0] == value.version:
        return value.array
    _check_known(value)
    loaded = load_output_tensor(node, value)
    return None if loaded is None else loaded._array


def load_output_tensor(node: Node, value: Any) -> Any:
    """A saved result with its place in the graph, checked; None where none was needed."""
    if value is None:
        return None
    if value is FREED:
        raise freed_error(node)
    if not isinstance(value, SavedOutput):
        return value.unpack(node)
    tangents = value.tangents
    if value.counter[0] == value.version:
        tensor = wrap(value.array)
        tensor._counter = value.counter
    else:
        tensor, tangents = rewound.rebuild_output(node, value)
    tensor._flags = value.flags & ~DUAL
    if value.flags & SUBCLASS:
        as_subclass(tensor)
    if value.flags & REQUIRES_GRAD:
        tensor._edge = output_edge(node, value.number, value.slices)
    restore_tangents(tensor, tangents)
    return tensor


def restore_tangents(tensor: Tensor, tangents: dict[Any, Tensor] | None) -> None:
    """Makes a loaded tensor dual, if what it was saved from was."""
    if tangents:
        meta_of(tensor).tangents = dict(tangents)
        tensor._flags |= DUAL


def version_error(node: Node, value: Any, expected: int) -> SavedVersionError:
    """The error for a saved value whose memory was written to."""
    held = (value, value._array if isinstance(value, Tensor) else value)
    names = [n for n in node._saves_tensors if any(getattr(node, n, None) is h for h in held)]
    name = names[0] if names else "in a list"
    if isinstance(value, Tensor) and type(value._counter) is ContentVersion:
        return SavedVersionError(
            f"{node.name()}: one of the variables needed for gradient computation has been "
            f"modified by an inplace operation: {name!r} of shape {list(value.shape)} is a NumPy "
            "array that the program wrote to after the operation. Compute with a copy "
            "(array.copy()), or write to a new array."
        )
    if isinstance(value, SavedOutput):
        shape, now = value.array.shape, value.counter[0]
        origin = f"output {value.number} of {node.name()}"
    else:
        shape, now = value.shape, version(value)
        producer, number = unpack_edge(value._edge)
        plain = "a view" if type(value._meta) is View else "a leaf"
        origin = plain if producer is None else f"output {number} of {producer.name()}"
    if is_anomaly_enabled():
        hint = "the backtrace further above shows the operation that failed to compute its gradient"
    else:
        hint = "enable anomaly detection with set_detect_anomaly(True) to find the operation"
    return SavedVersionError(
        f"{node.name()}: one of the variables needed for gradient computation has been modified by "
        f"an inplace operation: saved value {name!r} of shape {list(shape)}, which is {origin}, is "
        f"at version {now}; expected version {expected} instead. Compute with a copy (clone()) "
        f"before writing. Hint: {hint}."
    )
