"""Functions of ``autograd.numpy`` that take more than NumPy's do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pullback.compat.autograd.boxes import getval
from pullback.compat.autograd.namespace import member
from pullback.errors import AutogradValueError
from pullback.tensor.tensor import Tensor

__all__ = ["append", "integer_type", "make_diagonal", "maximum_of", "minimum_of", "row_stack"]
__all__ += ["where"]

_array = member(np, "array")
row_stack = member(np, "vstack")


def append(arr: Any, values: Any, axis: int | None = None) -> Any:
    """``np.append``, also of nested lists of tensors."""
    first, second = _array(arr), _array(values)
    if axis is None:
        first, second, axis = np.ravel(first), np.ravel(second), 0
    return np.concatenate([first, second], axis)


def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    """``np.where`` with argument names; a Python bool chooses between values that are no arrays.

    >>> where(True, 3, 4.0), where(condition=[True, False], x=np.ones(2), y=np.zeros(2)).tolist()
    (3, [1.0, 0.0])
    """
    if x is None and y is None:
        return np.where(condition)
    if isinstance(condition, bool) and not any(isinstance(v, np.ndarray | Tensor) for v in (x, y)):
        return x if condition else y
    return member(np, "where")(condition, x, y)


def make_diagonal(D: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:  # noqa: N803
    """Matrices whose diagonals are the last axis of an array, in two new last axes.

    >>> make_diagonal(np.array([1.0, 2.0]), axis1=-1, axis2=-2).tolist()
    [[1.0, 0.0], [0.0, 2.0]]
    """
    if (offset, axis1, axis2) != (0, -1, -2):
        raise AutogradValueError(
            f"make_diagonal takes offset=0, axis1=-1, axis2=-2, not {(offset, axis1, axis2)}"
        )
    return D[..., None] * np.eye(D.shape[-1])


def _extremum(name: str) -> Callable[..., Any]:
    original = member(np, name)

    def call(a: Any, *args: Any, **kwargs: Any) -> Any:
        if not (isinstance(a, Tensor) and a.dtype.kind == "c"):
            return original(a, *args, **kwargs)
        axis = args[0] if args else kwargs.get("axis")
        value = getval(a)
        chosen = value == getattr(np, name)(value, axis=axis, keepdims=True)
        weights = chosen / np.sum(chosen, axis=axis, keepdims=True)
        return np.sum(a * weights, axis=axis, keepdims=kwargs.get("keepdims", False))

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"``np.{name}``, of complex numbers by real and then imaginary part."
    return call


maximum_of = _extremum("max")
minimum_of = _extremum("min")


class _IntegerType(type):
    """Instances are those of NumPy's class."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.__bases__[0])


def integer_type(kind: type[np.signedinteger[Any]]) -> Any:
    """An integer type of NumPy that takes tensors: the result is a constant.

    >>> integer_type(np.int64)(3.0)
    np.int64(3)
    """
    body = {"__new__": lambda cls, value=0: kind(getval(value))}  # noqa: ARG005
    return _IntegerType(kind.__name__, (kind,), body)
