"""Cache of Python numbers as float64 operands.

``array * 2.0`` takes NumPy 1.5 times as long as a product of arrays, because it converts the number
and promotes dtypes at each call. Beside a float64 tensor a number always becomes float64, so it is
converted once and cached. Python's operators (``tensor/methods/operators.py``) use the cache;
elsewhere a number is not converted, see ``as_operand``.

A cached operand must not change: its array is read-only, saved values are exposed as copies, and
modes that pass operands to user code get new ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pullback.dispatch.modes import NUMPY, get_state
from pullback.tensor.tensor import Tensor, as_operand, is_constant_number, wrap

__all__ = ["factor_beside", "is_constant", "operand_beside", "repeats"]

_FLOAT64 = np.dtype(np.float64)
_MOST = 256  # a number that changes with every step of a loop must not fill the memory
_known: dict[float, Tensor] = {}
_version = [0]  # shared by all of them; also marks them
_ndarray = np.ndarray
_SEQUENCES = frozenset({list, tuple, str, bytes})


def repeats(tensor: Tensor, value: Any) -> bool:
    """Whether a factor is a list or text that an integer of a NumPy program repeats."""
    kind = type(value)
    return kind in _SEQUENCES and tensor.dtype.kind in "iu" and is_constant_number(tensor)


def _maker(is_factor: bool) -> Callable[[Tensor, Any], Tensor]:
    def operand_beside(tensor: Tensor, value: Any) -> Tensor:
        """An argument of an element-wise operator, whose other argument is a tensor.

        >>> import pullback as pb
        >>> x = pb.tensor([1.0, 2.0])
        >>> operand_beside(x, 3) is operand_beside(x, 3.0)
        True
        """
        kind = type(value)
        if kind is float or kind is int:
            array = tensor._array
            if (
                value  # 0.0 and -0.0 would be one entry
                and type(array) is _ndarray
                and array.dtype is _FLOAT64
                and not get_state().modes & ~NUMPY
            ):
                operand = _known.get(value)
                return _remember(value) if operand is None else operand
        elif is_factor and kind in _SEQUENCES and repeats(tensor, value):
            raise TypeError  # what multiplies makes a list of it
        return as_operand(value)

    return operand_beside


operand_beside, factor_beside = _maker(False), _maker(True)


def _remember(value: float) -> Tensor:
    array = np.array(value, _FLOAT64)
    array.flags.writeable = False
    operand = wrap(array)
    operand._counter = _version
    if len(_known) >= _MOST:
        _known.clear()
    _known[value] = operand
    return operand


def is_constant(tensor: Tensor) -> bool:
    """Whether an operand is a Python number: one that is kept here, or one of ``as_operand``."""
    return tensor._counter is _version or type(tensor._array) in (bool, int, float, complex)
