"""``x[index] = value`` in one step: the most frequent write to a view, without the view.

A program that fills an array row by row makes a view of every row only to write to it, and the
graph gets three nodes: of the view, of the write, and the ``CopySlices`` that puts the write in its
place. Where nothing about the tensors is unusual, one node says all of it::

    x[index] = value     x ── CopyItem ──┬── x's old edge
                                         └── value

``tensor/methods/indexing.py`` calls this module if the operators that it would call otherwise,
`getitem` and `copy_`, would both run our own kernels. Everything that these check is checked here;
any other case is left to them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from pullback._lazy import lazy_module
from pullback.autograd.graph.inplace import CopySlices
from pullback.autograd.graph.node import Node, Output, TwoEdges, sequence_counter
from pullback.autograd.graph.output_metadata import (
    FLOAT64,
    FLOAT64_METADATA,
    OutputMetadata,
    intern_metadata,
)
from pullback.autograd.graph.views import EDGED, edge_of, move_retained
from pullback.autograd.namespaces import Namespace, arrays
from pullback.dispatch.keys import REQUIRES_GRAD
from pullback.tensor.tensor import Tensor, version_of

if TYPE_CHECKING:
    from pullback.autograd.graph import undo_log
else:
    undo_log = lazy_module("pullback.autograd.graph.undo_log")

__all__ = ["CopyItem", "write_item"]

_ndarray = np.ndarray
_may_share_memory = np.may_share_memory


class CopyItem(TwoEdges):
    """A write to a part of a tensor whose memory runs in order, of a value with the part's shape or
    of a number.

    Users know it as the ``CopySlices`` that it stands for.
    """

    __slots__ = ("index", "write")
    _saves: ClassVar[tuple[str, ...]] = ("index",)
    _is_plain: ClassVar[bool] = False  # it writes to gradients, which not every pass allows
    _is_direct: ClassVar[bool] = False
    _sees_buffers: ClassVar[bool] = True
    is_ours: ClassVar[bool] = True
    place: ClassVar[int] = 0
    number: ClassVar[int] = 0

    index: tuple[Any, ...]
    write: type[Any]  # the class of the node that the write alone would have

    def name(self) -> str:
        """The name of a write to a view."""
        return CopySlices.__name__

    @property
    def fn(self) -> Node:
        """The node of the write alone, as an attribute for users."""
        node: Any = self.write()
        node._edges = (None, self._edge1)
        node._seq = self._seq
        metadata = self._output_metadata
        part = self.replay(arrays, np.empty(metadata.shape))
        node._output_metadata = intern_metadata(part.shape, metadata.dtype)
        return node  # type: ignore[no-any-return]

    def replay(self, xp: Namespace, base: Any) -> Any:
        """The part of something of the base's shape that was written to."""
        return xp.getitem(base, self.index)

    def backward(self, xp: Namespace, *grads: Any) -> tuple[Any, ...]:
        """The base's gradient with zeros in the part, and the part's."""
        (grad,) = grads
        if grad is None:
            return None, None
        if xp is arrays:
            return self.run_on(grad, {}, set(), True)
        whole = xp.in_layout(grad, tuple(range(len(self._output_metadata.shape))))
        part = self.replay(xp, whole)
        new = xp.clone(part)
        xp.copy_(part, xp.zeros_like(part))
        return whole, new

    def run_on(
        self,
        grad: Any,
        buffers: dict[Node, Any],
        owned: set[Node],
        keep: bool,  # noqa: ARG002
    ) -> tuple[Any, ...]:
        """``run`` on a gradient that may be written to if no other object holds it."""
        index = self.index
        base = self._edge0
        if base is None:  # the tensor had no history, so the rest of its gradient is lost
            return None, np.array(grad[index])
        if self not in owned or type(grad) is not _ndarray:
            grad = np.array(grad)
        if type(base) is Output:
            base = base.node
        if base not in buffers:
            owned.add(base)  # what it gets is new, or was ours
        part = grad[index]
        new = None if self._edge1 is None else part.copy()
        part.fill(0)
        return grad, new


def write_item(
    tensor: Tensor, index: Any, value: Tensor, write: type[Any] | None, is_logged: bool
) -> bool:
    """Writes to a part of a tensor, and says whether it did; if not, nothing has changed.

    `write` is the class of nodes for such writes, None if this one is not recorded. `is_logged` in
    `numpy_mode`, else there is no mode. The index has an ellipsis, so that it picks an array.
    """
    whole, array, counter = tensor._array, value._array, tensor._counter
    if not (
        type(whole) is _ndarray
        and whole.flags.carray
        and tensor._meta is None
        and (counter is None or type(counter) is list)
        and (write is None or tensor._edge is not None or not tensor._flags & REQUIRES_GRAD)  # leaf
    ):
        return False
    try:
        part = whole[index]
    except IndexError:
        return False
    if type(array) is _ndarray:
        if (
            part.base is array
            or (
                array.base is not None  # a view: of another tensor, or of an array that was given
                and (value._meta is not None or _may_share_memory(part, array))
            )
            or array.dtype is not whole.dtype
            or part.shape != array.shape
        ):
            return False
    elif type(array) is not float or whole.dtype is not FLOAT64:  # a number, which always fits
        return False
    counter = counter or version_of(tensor)  # from the old edge, whose node may have saved it
    log = undo_log.log_item(counter, whole, index, part) if is_logged else None
    if write is None:
        part[...] = array
        counter[0] += 1  # at once, as below: no interrupt comes between a write and its record
    else:
        node = CopyItem()
        node._edge0 = old = tensor._edge
        node._edge1 = value._edge or (edge_of(value) if value._flags & EDGED else None)
        try:
            node._output_metadata = FLOAT64_METADATA[whole.shape]
            if whole.dtype is not FLOAT64:
                node._output_metadata = OutputMetadata(whole.shape, whole.dtype)
        except KeyError:
            node._output_metadata = intern_metadata(whole.shape, whole.dtype)
        node.index, node.write = index, write
        node._seq = sequence_counter()()
        part[...] = array
        tensor._edge = node
        tensor._flags |= REQUIRES_GRAD
        counter[0] += 1
        if old is not None and (type(old) is Output or old._output_metadata.extras is not None):
            move_retained(old, node)
    if log is not None:
        log.end = counter[0]
    return True
