"""Function to check, its arguments, and which arguments and results are differentiated.

Finite differences change the memory of the arguments in place, without counting versions, and
restore it: the function may hold the same tensors.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pullback.autograd.graph.views import requires_grad
from pullback.autograd.tensor_data import detach
from pullback.errors import AutogradError, AutogradTypeError, AutogradUsageError, AutogradValueError
from pullback.interrupts import uninterrupted_entry
from pullback.tensor.memory import check_writable
from pullback.tensor.tensor import Tensor

__all__ = ["Array", "Options", "Problem", "as_tuple", "random_like"]

Array = NDArray[Any]


@dataclass(frozen=True)
class Options:
    """Tolerances and options of the checks."""

    eps: float
    atol: float
    rtol: float
    nondet_tol: float
    check_grad_dtypes: bool
    fast_mode: bool


class Problem:
    """A function at a point.

    Attributes:
        places: the positions of the arguments that require grad.
        outputs: the position of each result that requires grad, and the result.
        results: all results, in order.
    """

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...]):
        self.function = function
        self.args = args
        self.places = [
            place
            for place, value in enumerate(args)
            if isinstance(value, Tensor) and requires_grad(value)
        ]
        self._check_inputs()
        self.results = self.call()
        self.outputs = [(n, y) for n, y in enumerate(self.results) if requires_grad(y)]

    def _check_inputs(self) -> None:
        if not self.places:
            raise AutogradValueError(
                "gradcheck expects at least one input tensor to require gradient, but none of them "
                "has requires_grad=True"
            )
        for place in self.places:
            array = self.args[place]._array
            if array.dtype not in (np.float64, np.complex128):
                warnings.warn(
                    f"Input #{place} requires gradient and is not a double precision floating "
                    f"point or complex, but {array.dtype}. The differences will likely be too "
                    f"coarse: use float64 or complex128, or a larger eps, atol and rtol.",
                    stacklevel=6,
                )
            steps = zip(array.shape, array.strides, strict=True)
            if array.size and any(stride == 0 and n > 1 for n, stride in steps):
                raise AutogradError(
                    f"The {place}th input has a dimension with stride 0. gradcheck changes one "
                    f"element at a time, so elements may not share memory: pass a clone() of the "
                    f"input."
                )
            check_writable(array, f"gradcheck: input at position {place}")

    def input(self, place: int) -> Tensor:
        """The argument at a position."""
        tensor: Tensor = self.args[place]
        return tensor

    @property
    def inputs(self) -> list[Tensor]:
        """The arguments that require grad."""
        return [self.args[place] for place in self.places]

    def detached(self) -> dict[int, Tensor]:
        """The arguments that require grad by position, as tensors that do not."""
        return {place: detach(self.input(place)) for place in self.places}

    def call(self, replaced: dict[int, Tensor] | None = None) -> tuple[Tensor, ...]:
        """The results of the function as a tuple, with some arguments replaced."""
        args = list(self.args)
        for place, value in (replaced or {}).items():
            args[place] = value
        results = as_tuple(self.function(*args))
        for number, result in enumerate(results):
            if not isinstance(result, Tensor):
                raise AutogradTypeError(
                    f"gradcheck: `func` has to return a tensor or a tuple of tensors, but output "
                    f"{number} is of type {type(result).__name__}"
                )
        return results

    def differentiated(self) -> list[Tensor]:
        """The results that require grad, of a new call."""
        results = self.call()
        return [results[number] for number, _ in self.outputs]

    def difference(self, place: int, change: Any, eps: float) -> list[Array]:
        """``(f(x + eps * change) - f(x - eps * change)) / (2 * eps)``, for every result."""
        with self._changed(place, eps * change):
            above = [np.array(y._array) for y in self.call()]
        with self._changed(place, -eps * change):
            below = [np.array(y._array) for y in self.call()]
        _check_same_kind(above, below, eps)
        return [_rate(p, m, eps) for p, m in zip(above, below, strict=True)]

    def _changed(self, place: int, change: Any) -> _Changed:
        """A block in which the memory of an argument is changed."""
        return _Changed(self.input(place)._array, change)


class _Changed:
    """A block in which `change` is added to an array, without a change of version counters."""

    def __init__(self, array: Array, change: Any):
        self._array = array
        self._before = array.copy()
        self._inside = self._before + change

    def __enter__(self) -> None:
        self._array[...] = self._inside

    @uninterrupted_entry
    def __exit__(self, *exception: object) -> None:
        self._array[...] = self._before


def as_tuple(value: Any) -> tuple[Any, ...]:
    """The results of a function, or the arguments of one, as a tuple."""
    return tuple(value) if isinstance(value, tuple | list) else (value,)


def random_like(rng: np.random.Generator, like: Any) -> Array:
    """A random array of the shape and dtype of a tensor or array, with elements in [-1, 1)."""
    drawn: Array = rng.uniform(-1.0, 1.0, like.shape)
    if like.dtype.kind == "c":
        drawn = drawn + 1j * rng.uniform(-1.0, 1.0, like.shape)
    return np.asarray(drawn, dtype=like.dtype)


def _rate(above: Array, below: Array, eps: float) -> Array:
    """The rate of change; integers and truth values do not change."""
    if above.dtype.kind not in "fc":
        return np.zeros(above.shape)
    return np.asarray((above - below) / (2 * eps))


def _check_same_kind(above: list[Array], below: list[Array], eps: float) -> None:
    first = [(y.dtype.name, y.shape) for y in above]
    second = [(y.dtype.name, y.shape) for y in below]
    if first != second:
        shapes = [[y.shape for y in results] for results in (above, below)]
        what = "dtype" if shapes[0] == shapes[1] else "shape"
        raise AutogradUsageError(
            f"gradcheck: Expected `func` to return outputs with the same {what} when inputs are "
            f"perturbed up to absolute tolerance of eps={eps}, but got {first} and {second}"
        )
