"""Methods and attributes that arrays have and operators do not give: ``x.flat``, ``x.sort()`` …

They make code that was written for arrays run on tensors. Those that write in place record history,
as every write does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from pullback._generated import functions_indexing as indexing
from pullback._generated import functions_pointwise as pointwise
from pullback._generated import functions_products as products
from pullback._generated import functions_reduction as reduction
from pullback._generated import functions_shape as shape
from pullback._generated import functions_sorting as sorting
from pullback._lazy import lazy_module
from pullback.dispatch.modes import MAPPING, TAPE, TRANSFORM, get_state
from pullback.errors import InplaceError
from pullback.interop.arguments import entry, raw
from pullback.interop.array_methods import ARRAY_METHODS
from pullback.tensor.methods.indexing import setitem
from pullback.tensor.tensor import Tensor

if TYPE_CHECKING:
    from pullback.interop import mode
else:
    mode = lazy_module("pullback.interop.mode")

__all__ = ["Flat", "attach_methods"]


class Flat:
    """``x.flat``: the elements in a row, to be read, written and looped over.

    >>> import pullback as pb
    >>> x = pb.zeros((2, 2))
    >>> x.flat[1:3] = [5.0, 6.0]
    >>> x.tolist(), len(x.flat)
    ([[0.0, 5.0], [6.0, 0.0]], 4)
    """

    __slots__ = ("_tensor",)

    def __init__(self, tensor: Tensor):
        self._tensor = tensor

    def __len__(self) -> int:
        return self._tensor.size

    def __iter__(self) -> Iterator[Tensor]:
        return iter(shape.unbind(shape.reshape(self._tensor, -1)))

    def __getitem__(self, key: Any) -> Any:
        return shape.reshape(self._tensor, -1)[key].clone()

    def __setitem__(self, key: Any, value: Any) -> None:
        tensor = self._tensor
        picked = np.arange(tensor.size)[raw(key) if isinstance(key, Tensor) else key]
        setitem(tensor, np.unravel_index(picked, tensor.shape), value)


def _set_flat(self: Tensor, value: Any) -> None:
    indexing.put_(self, np.arange(self.size), value)


def _flags(self: Tensor) -> Any:
    """Memory layout: the flags of the tensor's array."""
    return np.asarray(self._array).flags  # the tensor's own: `writeable` can be set


def _argsort(
    self: Tensor,
    axis: int | None = -1,
    kind: Any = None,
    order: Any = None,
    *,
    descending: bool = False,
    stable: Any = None,
) -> Tensor:
    """The indices that put the elements in order; always stable."""
    del kind, order, stable
    return sorting.argsort(self, axis, descending=descending)


def _sort(
    self: Tensor, axis: int = -1, kind: Any = None, order: Any = None, *, stable: Any = None
) -> None:
    """Puts the elements in order, in place."""
    del kind, order, stable
    indexing.copy_(self, sorting.sort(pointwise.clone(self), axis))


def _partition(self: Tensor, kth: Any, axis: int = -1, kind: Any = None, order: Any = None) -> None:
    """Puts the kth element in its sorted place, in place."""
    del kind, order
    indexing.copy_(self, sorting.partition(pointwise.clone(self), kth, axis))


def _fill(self: Tensor, value: Any) -> None:
    """One value everywhere, in place; gradients pass to it."""
    indexing.fill_(self, value)


def _put(self: Tensor, indices: Any, values: Any, mode: str = "raise") -> None:
    """Writes to elements by their number."""
    indexing.put_(self, indices, entry(values, self.dtype), mode)


def _resize(self: Tensor, *_: Any, **__: Any) -> None:  # noqa: ARG001 - a method
    """Always raises: a tensor's shape is part of its history."""
    raise InplaceError(
        "resize: the shape of a tensor cannot change in place; say x = np.resize(x, shape)"
    )


def _conjugate(self: Tensor) -> Tensor:
    """The complex conjugate; real numbers themselves, so that a write to it reaches them."""
    return pointwise.conj(self) if self.dtype.kind == "c" else self


def _contains(self: Tensor, value: Any) -> bool:
    return bool(reduction.any(pointwise.equal(self, value)))


def _imatmul(self: Tensor, other: Any) -> Tensor:
    return indexing.copy_(self, products.matmul(self, other))


def _tobytes(self: Tensor, order: str = "C") -> bytes:
    """The bytes of the elements."""
    return raw(self).tobytes(order)  # type: ignore[arg-type]


def _copied(self: Tensor) -> Tensor:
    """``copy.copy(x)``: the elements in other memory; of a leaf that requires grad, a leaf.

    Gradients flow through the copy of any other tensor. So they do inside transforms and NumPy
    mode, where an argument of the function is a leaf too, and must not lose its gradient.
    """
    differentiates = get_state().modes & (TRANSFORM | MAPPING | TAPE) or mode.in_numpy_mode()
    if not self.requires_grad or not self.is_leaf or differentiates:
        return pointwise.clone(self)
    made = self.detach().clone()
    made.requires_grad = True
    return made


_MEMBERS: dict[str, Any] = {
    **ARRAY_METHODS,
    "argsort": _argsort,
    "conj": _conjugate,
    "conjugate": _conjugate,
    "fill": _fill,
    "flags": property(_flags),
    "flat": property(Flat, _set_flat),
    "partition": _partition,
    "put": _put,
    "resize": _resize,
    "sort": _sort,
    "tobytes": _tobytes,
    "__contains__": _contains,
    "__copy__": _copied,
    "__imatmul__": _imatmul,
}


def attach_methods() -> None:
    """Gives tensors the methods."""
    for name, member in _MEMBERS.items():
        setattr(Tensor, name, member)
