"""NumPy's functions that return views, where ours of the same name copy as PyTorch's do.

A write to an array changes the result that ``np.flip`` or ``np.diag`` returned before.
"""

from __future__ import annotations

import operator
from typing import Any

from pullback._generated import functions_shape as shape
from pullback.interop.arguments import as_tensor
from pullback.tensor.tensor import Tensor

__all__ = ["diag", "einsum_view", "flip", "fliplr", "flipud", "rot90"]

_BACKWARDS = slice(None, None, -1)
_WHOLE = slice(None)


def _axes(axis: Any, ndim: int, name: str) -> set[int]:
    """The axes that an argument names, counted from the first."""
    given = range(ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    found = [operator.index(a) for a in given]
    for a in found:
        if not -ndim <= a < ndim:
            raise ValueError(f"{name}: axis {a} is out of bounds for a tensor of {ndim} axes")
    axes = {a % ndim for a in found}
    if len(axes) != len(found):
        raise ValueError(f"{name}: repeated axis in {axis!r}")
    return axes


def flip(m: Any, axis: Any = None) -> Tensor:
    """``numpy.flip``."""
    tensor = as_tensor(m)
    axes = _axes(axis, tensor.ndim, "numpy.flip")
    return tensor[(*(_BACKWARDS if a in axes else _WHOLE for a in range(tensor.ndim)), ...)]


def fliplr(m: Any) -> Tensor:
    """``numpy.fliplr``."""
    tensor = as_tensor(m)
    if tensor.ndim < 2:
        raise ValueError("numpy.fliplr: Input must be >= 2-d.")
    return flip(tensor, 1)


def flipud(m: Any) -> Tensor:
    """``numpy.flipud``."""
    tensor = as_tensor(m)
    if tensor.ndim < 1:
        raise ValueError("numpy.flipud: Input must be >= 1-d.")
    return flip(tensor, 0)


def rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Tensor:
    """``numpy.rot90``."""
    tensor = as_tensor(m)
    axes = tuple(axes)
    if len(axes) != 2:
        raise ValueError(f"numpy.rot90: len(axes) must be 2, not {len(axes)}")
    _axes(axes, tensor.ndim, "numpy.rot90")
    first, second = axes
    k = operator.index(k) % 4
    if k == 0:
        return tensor[...]
    if k == 2:
        return flip(tensor, axes)
    if k == 1:
        return shape.swapaxes(flip(tensor, second), first, second)
    return flip(shape.swapaxes(tensor, first, second), second)


def diag(v: Any, k: int = 0) -> Tensor:
    """``numpy.diag``: the diagonal of a matrix is a view."""
    tensor = as_tensor(v)
    return shape.diagonal(tensor, k) if tensor.ndim == 2 else shape.diag(tensor, k)


def einsum_view(subscripts: str, operand: Any) -> Tensor | None:
    """``numpy.einsum`` of one operand that only picks diagonals and moves axes; None for others."""
    given, arrow, wanted = subscripts.replace(" ", "").partition("->")
    labels = list(given)
    tensor = as_tensor(operand)
    picks = arrow and given.isalpha() and len(labels) == tensor.ndim
    if not picks or set(labels) != set(wanted) or len(set(wanted)) != len(wanted):
        return None
    for label in wanted:
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            if tensor.shape[first] != tensor.shape[second]:
                return None  # the general function raises the error
            tensor = shape.diagonal(tensor, 0, first, second)
            del labels[second], labels[first]
            labels.append(label)
    return shape.permute_dims(tensor, [labels.index(label) for label in wanted])
