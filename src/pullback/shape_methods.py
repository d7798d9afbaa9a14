"""Methods of tensors that no schema can describe: ``x.reshape(2, 3)``, ``x.view(dtype)``, ``x.T``.

They take their arguments in a row or as one sequence, as NumPy and PyTorch do, and call the
generated functions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from pullback import array_functions
from pullback._generated import functions_pointwise as pointwise
from pullback._generated import functions_shape as functions
from pullback.errors import DerivativeMissingError
from pullback.tensor.tensor import Tensor, share_counter, wrap

__all__ = ["astype", "copy", "expand", "reshape", "transpose", "view"]


def _unpacked(args: tuple[Any, ...]) -> Any:
    """Arguments that came in a row, or as one sequence."""
    return args[0] if len(args) == 1 else args


def reshape(self: Tensor, *shape: Any, order: str = "C", copy: bool | None = None) -> Tensor:
    """The same elements in another shape: ``x.reshape(2, -1)`` or ``x.reshape((2, -1))``."""
    return functions.reshape(self, _unpacked(shape), order, copy=copy)


def view(self: Tensor, *shape: Any) -> Tensor:
    """The same memory in another shape, never a copy; or read as another dtype.

    The real numbers inside complex ones, and complex ones made of pairs, keep their history. Memory
    seen as integers has none: ``x.view(np.int64)`` shares the elements and notices writes to them.
    """
    if len(shape) == 1 and not isinstance(shape[0], int | tuple | list | np.integer):
        return _seen_as(self, np.dtype(shape[0]))
    return functions.reshape(self, _unpacked(shape), copy=False)


def _seen_as(self: Tensor, dtype: np.dtype[Any]) -> Tensor:
    """The same memory read as another dtype."""
    if dtype == self.dtype:
        return functions.reshape(self, self.shape, copy=False)
    made = self._array.view(dtype)
    if (self.dtype.char, dtype.char) in (("D", "d"), ("F", "f")):
        return functions.reshape(pointwise.view_as_real(self), made.shape, copy=False)
    if (self.dtype.char, dtype.char) in (("d", "D"), ("f", "F")):
        return pointwise.view_as_complex(functions.reshape(self, (*made.shape, 2), copy=False))
    if dtype.kind not in "fc" or not self.requires_grad:
        seen = wrap(made)
        share_counter(seen, self)
        return seen
    raise DerivativeMissingError(
        f"view: {self.dtype} seen as {dtype} has no derivative; write x.astype(dtype) for the same "
        "numbers in another type, or x.detach().view(dtype) for the same memory"
    )


def expand(self: Tensor, *shape: Any) -> Tensor:
    """The elements repeated to fill a larger shape, as a view; -1 keeps the length of an axis."""
    lengths = np.atleast_1d(_unpacked(shape)).tolist()
    new = len(lengths) - self.ndim
    if new < 0 or -1 in lengths[:new]:
        raise ValueError(
            f"expand: {tuple(lengths)} does not name a length for each new axis and each axis of "
            f"the tensor, whose shape is {self.shape}"
        )
    kept = zip(lengths[new:], self.shape, strict=True)
    return functions.broadcast_to(
        self, (*lengths[:new], *(own if n == -1 else n for n, own in kept))
    )


def transpose(self: Tensor, *axes: Any) -> Tensor:
    """The axes in another order, by default reversed: ``x.transpose(1, 0, 2)``."""
    return functions.permute_dims(self, _unpacked(axes) if axes else None)


def astype(
    self: Tensor,
    dtype: DTypeLike,
    order: str = "K",
    casting: str = "unsafe",
    subok: bool = True,
    copy: bool = True,
) -> Tensor:
    """The elements as another data type; with ``copy=False``, the tensor itself if it has it."""
    del order, subok
    if not np.can_cast(self.dtype, dtype, casting):  # type: ignore[arg-type]
        raise TypeError(
            f"astype: {self.dtype} cannot be cast to {np.dtype(dtype)} by the rule {casting!r}"
        )
    return array_functions.astype(self, dtype, copy=copy)


def copy(self: Tensor, order: str = "C") -> Tensor:
    """A copy that passes gradients on, as ``clone`` does; its layout is the tensor's own."""
    del order
    return pointwise.clone(self)


def _transposed(self: Tensor) -> Tensor:
    """All axes in reverse order."""
    return functions.permute_dims(self)


def _matrix_transposed(self: Tensor) -> Tensor:
    """The last two axes exchanged."""
    return functions.matrix_transpose(self)


for _name, _member in {
    "reshape": reshape,
    "view": view,
    "expand": expand,
    "transpose": transpose,
    "astype": astype,
    "copy": copy,
    "T": property(_transposed),
    "mT": property(_matrix_transposed),
}.items():
    setattr(Tensor, _name, _member)
