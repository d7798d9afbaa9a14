"""Tensors that leave for Python numbers and arrays: nothing detaches without a word."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.errors import AutogradError

V = [0.5, 1.5, 2.5]


def _assigned(array: Any, x: Any) -> None:
    array[0] = x[0]


def _flat_assigned(array: Any, x: Any) -> None:
    array.flat[1] = x[0]


# What NumPy's compiled code does by asking the tensor for a number.
INTO_ARRAYS: dict[str, Callable[[Any, Any], Any]] = {
    "assignment": _assigned,
    "assignment to flat": _flat_assigned,
    "__setitem__": lambda a, x: a.__setitem__(0, x[0]),
    "operator.setitem": lambda a, x: operator.setitem(a, 0, x[0]),
    "fill": lambda a, x: a.fill(x[0]),
    "fill of a part": lambda a, x: a[1:].fill(x[0] if len(a) else x[1]),
    "fromiter": lambda _, x: np.fromiter(x, float),
    "fromiter of a generator": lambda _, x: np.fromiter((2 * v for v in x), dtype=float, count=2),
    "fromiter of integers": lambda _, x: np.fromiter(x, int),
    "float64": lambda _, x: np.float64(x[0]),
    "double": lambda _, x: np.double(x[0]),
    "dtype.type": lambda a, x: a.dtype.type(x[0]),
    "float32": lambda _, x: np.float32(x[0]),
    "complex128": lambda _, x: np.complex128(x[0]),
    "reduce": lambda a, x: np.add.reduce(a, initial=x[0]),
    "reduce by keywords": lambda a, x: np.multiply.reduce(*(a,), **{"axis": 0} | {"initial": x[0]}),
    "sum": lambda a, x: np.sum(a, initial=x[0]),
    "method sum": lambda a, x: a.sum(initial=x[0]),
    "max": lambda a, x: np.max(a, initial=x[0]),
    "interp": lambda _, x: np.interp([9.0], V, V, right=x[0]),
}


@pytest.mark.parametrize("name", INTO_ARRAYS)
def test_what_an_array_would_swallow_raises(name: str) -> None:
    x = pb.tensor(V, requires_grad=True)
    array = np.zeros(3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises((AutogradError, ValueError)) as caught:
            INTO_ARRAYS[name](array, x)
    # NumPy puts an error of its own in front of ours, which stays its cause; flat drops it.
    told = caught.value if isinstance(caught.value, AutogradError) else caught.value.__cause__
    if name != "assignment to flat":
        assert isinstance(told, AutogradError)
        assert "requires grad" in str(told)
        assert "pb.asarray(array)" in str(told)
    assert not array.any()


@pytest.mark.parametrize("name", INTO_ARRAYS)
def test_without_a_gradient_the_same_works(name: str) -> None:
    expected = INTO_ARRAYS[name](np.zeros(3), np.array(V))
    made = INTO_ARRAYS[name](np.zeros(3), pb.tensor(V))
    assert np.array_equal(np.asarray(made), np.asarray(expected)) or expected is None


def test_a_tangent_is_not_lost_either() -> None:
    array = np.zeros(3)

    def through(x: Any) -> Any:
        array.fill(x)
        return x

    with pytest.raises(ValueError, match="sequence") as caught:
        pb.func.jvp(through, (pb.tensor(1.0),), (pb.tensor(1.0),))
    assert isinstance(caught.value.__cause__, AutogradError)


def test_calls_of_float_warn_whatever_they_are_named() -> None:
    """Rule 1.10."""
    x = pb.tensor(V, requires_grad=True)
    number = float
    table = {"to": float}
    for call in (
        lambda: number(x[0]),
        lambda: table["to"](x[0]),
        lambda: next(map(float, x)),
        lambda: (lambda value: float(value))(x[0]),
        lambda: float.__call__(x[0]),
    ):
        with pytest.warns(UserWarning, match="no part of the graph"):
            assert call() == 0.5


def test_printing_a_number_is_no_loss() -> None:
    x = pb.tensor(V, requires_grad=True)
    with pytest.warns(UserWarning, match="no part"):
        assert np.format_float_positional(x[0]) == "0.5"
