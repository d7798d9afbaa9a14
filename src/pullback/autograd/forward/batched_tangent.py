"""Many tangents at once, as raw arrays: formulas on them are those on one tangent.

``Rows`` is an array with one axis in front, which counts the tangents; the shape that it shows is
that of one. Python's operators and the functions of the namespace ``rows`` take it together with
arrays, which are the same for all tangents. Functions run by the batching rules of operators.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from pullback.autograd.graph.saved import load_array, load_output_array
from pullback.autograd.namespaces import Namespace, arrays
from pullback.batching.rules import array_rule
from pullback.kernels.broadcasting import axes_to

__all__ = ["DeclinedError", "Rows", "rows"]

_ndarray = np.ndarray
_Function = Callable[..., Any]


class DeclinedError(Exception):
    """Something that cannot be done on raw arrays."""


def _operator(ufunc: Any) -> tuple[_Function, _Function]:
    """A binary operator, and the same with its operands exchanged."""

    def call(self: Rows, other: Any) -> Rows:
        return Rows(ufunc(*_aligned(self, other)))

    def reflected(self: Rows, other: Any) -> Rows:
        own, given = _aligned(self, other)
        return Rows(ufunc(given, own))

    return call, reflected


def _in_place(ufunc: Any) -> _Function:
    """A binary operator that writes to its first operand, which no array but this one may hold."""

    def call(self: Rows, other: Any) -> Rows:
        own, given = _aligned(self, other)
        ufunc(own, given, out=own)
        return self

    return call


class Rows:
    """Arrays of one shape, one for each tangent."""

    __slots__ = ("array",)
    __array_ufunc__ = None  # so that an array leaves operators to us
    __hash__ = None  # type: ignore[assignment]  # as arrays

    def __init__(self, array: NDArray[Any]):
        self.array = array

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one of them."""
        return self.array.shape[1:]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the elements."""
        return self.array.dtype

    @property
    def ndim(self) -> int:
        """The number of axes of one of them."""
        return self.array.ndim - 1

    @property
    def size(self) -> int:
        """The number of elements of one of them."""
        return math.prod(self.shape)

    @property
    def mT(self) -> Any:  # noqa: N802 - the array's name
        """Each with its last two axes exchanged."""
        return rows.matrix_transpose(self)

    __add__, __radd__ = _operator(np.add)
    __sub__, __rsub__ = _operator(np.subtract)
    __mul__, __rmul__ = _operator(np.multiply)
    __truediv__, __rtruediv__ = _operator(np.divide)
    __iadd__ = _in_place(np.add)
    __itruediv__ = _in_place(np.divide)
    __pow__, __rpow__ = _operator(np.power)
    __and__, __rand__ = _operator(np.bitwise_and)
    __or__, __ror__ = _operator(np.bitwise_or)
    __eq__ = _operator(np.equal)[0]
    __ne__ = _operator(np.not_equal)[0]
    __lt__ = _operator(np.less)[0]
    __le__ = _operator(np.less_equal)[0]
    __gt__ = _operator(np.greater)[0]
    __ge__ = _operator(np.greater_equal)[0]

    def __neg__(self) -> Rows:
        return Rows(-self.array)

    def __invert__(self) -> Rows:
        return Rows(~self.array)

    def __matmul__(self, other: Any) -> Any:
        return rows.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return rows.matmul(other, self)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):  # Python's own questions, and NumPy's
            raise AttributeError(name)
        raise DeclinedError(f"many tangents have no {name}")

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise DeclinedError("many tangents are no array")

    def __bool__(self) -> NoReturn:
        raise DeclinedError("the value of one tangent")

    def __iter__(self) -> NoReturn:
        raise DeclinedError("elements of tangents")

    def __getitem__(self, index: Any) -> Rows:
        places = index if type(index) is tuple else (index,)
        if any(isinstance(place, _ndarray | list) for place in places):
            raise DeclinedError("elements of tangents by arrays of indices")
        return Rows(self.array[(slice(None), *places)])


def _aligned(one: Rows, other: Any) -> tuple[Any, Any]:
    """Two operands whose axes broadcast: new ones come behind the first."""
    array = one.array
    if type(other) is Rows:
        second = other.array
        missing = array.ndim - second.ndim
        if missing > 0:
            second = _padded(second, missing)
        elif missing < 0:
            array = _padded(array, -missing)
        return array, second
    missing = np.ndim(other) - array.ndim + 1
    return (_padded(array, missing) if missing > 0 else array), other


def _padded(array: NDArray[Any], count: int) -> NDArray[Any]:
    shape = array.shape
    return array.reshape(shape[:1] + (1,) * count + shape[1:])


class _RowsNamespace(Namespace):
    """Formulas on many tangents, and arrays beside them."""

    def __init__(self) -> None:
        super().__init__("rows", load_array, load_output_array)  # of what is the same for all

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        on_arrays: _Function = getattr(arrays, name)
        if isinstance(on_arrays, partial) and on_arrays.args == (arrays,):
            function: _Function = partial(on_arrays.func, self)
        else:
            function = _by_rule(name, on_arrays)
        setattr(self, name, function)
        return function

    @staticmethod
    def conj(x: Any) -> Any:
        """The complex conjugate; what is real is returned as it is."""
        if type(x) is not Rows:
            return arrays.conj(x)
        return Rows(np.conjugate(x.array)) if x.array.dtype.kind == "c" else x

    def expand(self, value: Any, shape: tuple[int, ...]) -> Any:
        """A value repeated to a larger shape."""
        if type(value) is not Rows:
            return arrays.expand(value, shape)
        array = value.array
        array = _padded(array, len(shape) + 1 - array.ndim)
        return Rows(np.broadcast_to(array, array.shape[:1] + tuple(shape)))

    def sum_to(self, grad: Any, shape: tuple[int, ...], blame: Callable[[], str]) -> Any:
        """Undoes broadcasting."""
        if type(grad) is not Rows:
            return arrays.sum_to(grad, shape, blame)
        array, axes = grad.array, axes_to(grad.shape, shape)
        assert axes is not None  # the arrays that these are tangents of have been summed
        if axes:
            array = array.sum(tuple(axis + 1 for axis in axes), keepdims=True)
        return Rows(array.reshape(array.shape[:1] + tuple(shape)))


def _by_rule(name: str, on_arrays: _Function) -> _Function:
    """An operator, by the rule that it has for many samples."""
    rule = array_rule(f"pullback::{name}")

    def call(*args: Any, **kwargs: Any) -> Any:
        count = max(map(_count, (*args, *kwargs.values())), default=0)
        if not count:
            return on_arrays(*args, **kwargs)
        found = NotImplemented
        if rule is not None:
            named = {key: _led(value) for key, value in kwargs.items()}
            found = rule(1, *map(_led, args), **named)
        if found is NotImplemented:
            found = _stacked([_sample(on_arrays, i, args, kwargs) for i in range(count)])
        return _wrapped(found, count)

    return call


def _sample(function: _Function, place: int, args: Any, kwargs: Any) -> Any:
    """An operator on one of the tangents."""

    def one(value: Any) -> Any:
        if type(value) is Rows:
            return value.array[place]
        return [one(item) for item in value] if type(value) is list else value

    return function(*map(one, args), **{key: one(value) for key, value in kwargs.items()})


def _stacked(found: list[Any]) -> Any:
    """Results of one tangent each, together."""
    if isinstance(found[0], tuple | list):
        parts = [_stacked(list(part)) for part in zip(*found, strict=True)]
        return tuple(parts) if isinstance(found[0], tuple) else parts
    return np.stack(found)


def _count(value: Any) -> int:
    """How many tangents there are in an argument."""
    if type(value) is Rows:
        return len(value.array)
    return max(map(_count, value), default=0) if type(value) is list else 0


def _led(value: Any) -> Any:
    """An argument as a batching rule takes it: every array has one axis in front."""
    if type(value) is Rows:
        return value.array
    if isinstance(value, _ndarray | np.generic):
        return np.asarray(value)[np.newaxis]
    if type(value) is list and any(isinstance(item, Rows | _ndarray) for item in value):
        return [None if item is None else np.asarray(_led(item)) for item in value]
    return value


def _wrapped(found: Any, count: int) -> Any:
    """What a rule has returned."""
    if isinstance(found, tuple):
        return tuple(_wrapped(part, count) for part in found)
    if isinstance(found, list):
        return [_wrapped(part, count) for part in found]
    array = np.asarray(found)
    if len(array) != count:
        array = np.broadcast_to(array, (count, *array.shape[1:]))
    return Rows(array)


rows = _RowsNamespace()
