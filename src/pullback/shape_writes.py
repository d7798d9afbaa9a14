"""Methods that change a tensor's own shape or memory: ``squeeze_``, ``transpose_``, ``resize_``.

They are writes: they count as one, are recorded like one, and outside of no_grad mode a leaf that
requires grad refuses them. The memory stays where it is, so other views of it keep their values; a
view whose base has changed its shape can be read, but no longer follow the base's history
(``view.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from pullback._generated import functions_shape as functions
from pullback.autograd.accumulate import forget_form
from pullback.autograd.inplace import check_inplace
from pullback.autograd.tangents import set_tangent, tangents_of
from pullback.autograd.view import edge_of, move_retained, requires_grad, view_of
from pullback.dispatch.modes import AutoGradMode, is_grad_enabled
from pullback.errors import InplaceError
from pullback.lazy import lazy_module
from pullback.tensor.tensor import NO_COUNTER, Tensor, meta_of, version_of

if TYPE_CHECKING:
    from pullback import meta
else:
    meta = lazy_module("pullback.meta")

__all__ = ["resize_", "set_", "squeeze_", "t_", "transpose_", "unsqueeze_"]


def _change(self: Tensor, step: Callable[[Tensor], Tensor]) -> Tensor:
    """Makes a tensor what `step` makes of it: a view of itself.

    In no_grad mode a leaf stays one, and its gradients have the new shape. For any other tensor
    that requires grad the change is recorded all the same: its history has to know of it.
    """
    records = requires_grad(self)
    is_recorded = records and is_grad_enabled()
    check_inplace(self, is_recorded)
    own = view_of(self)
    if records and not is_recorded:
        is_recorded = self._edge is not None if own is None else own.edge is not None
    with AutoGradMode(is_recorded or is_grad_enabled()):
        new = step(self)
    made = view_of(new)
    if own is not None:
        assert made is not None
        own.take_place_of(made)
    elif is_recorded:
        version_of(self)  # while its node is known, which has to learn of the change
        old, self._edge = self._edge, edge_of(new)
        if old is not None:
            move_retained(old, self._edge)
    for level, tangent in tangents_of(new).items():
        set_tangent(self, level, tangent)
    _replace(self, new._array, is_base=own is None)
    return self


def _replace(self: Tensor, array: Any, is_base: bool) -> None:
    forget_form(self, array)  # what requires grad again later may find its accumulator again
    self._array = array
    counter = version_of(self)
    if counter is not NO_COUNTER:
        counter[0] += 1
        if is_base:
            meta_of(self).reshaped = counter[0]


def squeeze_(self: Tensor, axis: Any = None) -> Tensor:
    """Drops axes of length one, all or those named, of the tensor itself."""
    return _change(self, lambda x: functions.squeeze(x, axis))


def unsqueeze_(self: Tensor, axis: int) -> Tensor:
    """Gives the tensor itself a new axis of length one."""
    return _change(self, lambda x: functions.expand_dims(x, axis))


def transpose_(self: Tensor, axis1: int, axis2: int) -> Tensor:
    """Exchanges two axes of the tensor itself."""
    return _change(self, lambda x: functions.swapaxes(x, axis1, axis2))


def t_(self: Tensor) -> Tensor:
    """Exchanges the two axes of a matrix itself; a vector stays as it is."""
    if self.ndim > 2:
        raise ValueError(f"t_ is for at most two axes, and the tensor's shape is {self.shape}")
    return _change(self, lambda x: functions.permute_dims(x))


def resize_(self: Tensor, *shape: Any) -> Tensor:
    """Gives the tensor another shape and number of elements; new elements are zero.

    What fits stays in the same memory. A tensor that requires grad refuses, and so does a view.
    """
    lengths = tuple(np.atleast_1d(shape[0] if len(shape) == 1 else shape).tolist())
    if requires_grad(self):
        raise InplaceError(
            "cannot resize variables that require grad: no gradient belongs to elements that come "
            "and go; say reshape(), or detach() first"
        )
    if view_of(self) is not None:
        raise InplaceError("resize_: a view cannot be resized, because its base would not follow")
    if lengths == self.shape:
        return self
    check_inplace(self, False)
    _replace(self, _resized(self._array, lengths), is_base=True)
    return self


def _resized(array: Any, lengths: tuple[int, ...]) -> Any:
    if isinstance(array, meta.MetaArray):
        return meta.MetaArray(lengths, array.dtype)
    held = np.ascontiguousarray(array).reshape(-1)
    size = math.prod(lengths)
    if size > held.size:
        held = np.concatenate([held, np.zeros(size - held.size, held.dtype)])
    return held[:size].reshape(lengths)


def set_(self: Tensor, source: Tensor) -> Tensor:
    """Makes the tensor share the memory of another one, whose dtype must be the same."""
    if not isinstance(source, Tensor) or source.dtype != self.dtype:
        kind = source.dtype if isinstance(source, Tensor) else type(source).__name__
        raise InplaceError(f"set_: the source must be a tensor of dtype {self.dtype}, not {kind}")
    if source.device != self.device:
        raise InplaceError(f"set_: the source must be on {self.device!r}, not {source.device!r}")
    check_inplace(self, False)
    is_leaf = self._edge is None and view_of(self) is None
    if not is_leaf or (is_grad_enabled() and requires_grad(source)):
        raise InplaceError(
            "set_: neither views nor tensors with a history can change memory, and in grad mode "
            "the source may not require grad"
        )
    _replace(self, source._array, is_base=True)
    return self


for _method in (resize_, set_, squeeze_, t_, transpose_, unsqueeze_):
    setattr(Tensor, _method.__name__, _method)
