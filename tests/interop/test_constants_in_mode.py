"""Calls of libraries on plain data give in `numpy_mode` exactly what they give outside of it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import pullback as pb

from .constant_calls import SUBPACKAGES, find_calls
from .neighbour_calls import CALLS

scipy = pytest.importorskip("scipy", reason="pip install scipy runs these tests")


def differences(first: Any, second: Any, depth: int = 4) -> str:
    """A difference between two results, types included; empty if there is none."""
    if type(first) is not type(second):
        return f"{type(first).__name__} and {type(second).__name__}"
    if isinstance(first, np.ndarray):
        if first.dtype == object:
            return differences(list(first.ravel()), list(second.ravel()), depth)
        same = first.dtype == second.dtype and np.array_equal(
            first, second, equal_nan=first.dtype.kind in "fc"
        )
        return "" if same else f"values {first!r:.60} and {second!r:.60}"
    if isinstance(first, float | complex | np.generic):
        same = first == second or (first != first and second != second)
        return "" if same else f"{first!r} and {second!r}"
    if isinstance(first, int | str | bool | bytes | type(None)):
        return "" if first == second else f"{first!r} and {second!r}"
    if isinstance(first, dict):
        pairs = [(first[key], second.get(key)) for key in first]
    elif isinstance(first, list | tuple):
        if len(first) != len(second):
            return "lengths"
        pairs = list(zip(first, second, strict=True))
    elif hasattr(first, "toarray"):
        pairs = [(first.toarray(), second.toarray())]
    elif depth and hasattr(first, "__dict__"):
        pairs = [(value, vars(second).get(key)) for key, value in vars(first).items()]
    else:
        return ""
    if not depth:
        return ""
    return next((found for pair in pairs if (found := differences(*pair, depth - 1))), "")


def _run(function: Any, args: Any, options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        copies = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
        return function(*copies, **options)


def _difference_in_mode(function: Any, args: Any, options: Any) -> str:
    outside = _run(function, args, options)
    if differences(outside, _run(function, args, options)):
        return ""  # random, or with an address in it
    try:
        with pb.numpy_mode():
            inside = _run(function, args, options)
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:200]
    return differences(outside, inside)


def compare(calls: dict[str, Any]) -> dict[str, str]:
    """The calls that differ in the mode; each time, because some read uninitialized memory."""
    found = {}
    for name, call in calls.items():
        if all(difference := _difference_in_mode(*call) for _ in range(3)):
            found[name] = difference
    return found


# How many functions at least have a call: nearly all that take arrays.
AT_LEAST = {
    "linalg": 85, "signal": 130, "fft": 32, "ndimage": 70, "interpolate": 20, "integrate": 16,
    "optimize": 48, "sparse": 28, "stats": 220, "special": 320, "spatial": 9,
}  # fmt: skip


@pytest.mark.parametrize("subpackage", SUBPACKAGES)
def test_scipy_calls_on_constants_are_as_outside(subpackage: str) -> None:
    calls = find_calls(subpackage)
    assert compare(calls) == {}
    assert len(calls) >= AT_LEAST[subpackage]


def _same(first: Any, second: Any) -> bool:
    if type(first) is not type(second):
        return False
    if hasattr(first, "equals"):  # pandas
        return bool(first.equals(second))
    if hasattr(first, "identical"):  # xarray
        return bool(first.identical(second))
    return not differences(first, second)


@pytest.mark.parametrize(
    ("package", "name"), [(package, name) for package, calls in CALLS.items() for name in calls]
)
def test_calls_of_other_libraries_on_constants_are_as_outside(package: str, name: str) -> None:
    module = pytest.importorskip(package, reason=f"pip install {package} runs this test")
    call = CALLS[package][name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outside = call(module)
        with pb.numpy_mode():
            inside = call(module)
    assert _same(outside, inside)


def test_there_are_fifty_calls_of_other_libraries() -> None:
    assert sum(map(len, CALLS.values())) >= 50


def _made_by_user_code() -> dict[str, Any]:
    """Calls whose arrays user code makes in the mode: tensors there, without a gradient."""
    from scipy import fft, interpolate, linalg, optimize, signal, sparse
    from scipy.sparse.linalg import spsolve

    return {
        "inv": lambda: linalg.inv(np.eye(3) * 2.0),
        "solve": lambda: linalg.solve(np.eye(3) + 1.0, np.ones(3)),
        "cho_factor": lambda: linalg.cho_factor(np.eye(3) * 4.0)[0],
        "toeplitz": lambda: linalg.toeplitz(np.arange(3.0)),
        "expm": lambda: linalg.expm(np.ones((2, 2))),
        "fft": lambda: fft.fft(np.ones(4)),
        "butter": lambda: signal.butter(3, 0.2),
        "CubicSpline": lambda: interpolate.CubicSpline(np.arange(5.0), np.ones(5))(0.5),
        "diags": lambda: sparse.diags([np.ones(3)], offsets=[0]).toarray(),
        "spsolve": lambda: spsolve(sparse.csc_array(np.eye(3)), np.ones(3)),
        "minimize": lambda: optimize.minimize(lambda x: ((x - 1) ** 2).sum(), np.zeros(2)).x,
    }


@pytest.mark.parametrize("name", _made_by_user_code())
def test_calls_on_arrays_made_in_the_mode_have_the_same_values(name: str) -> None:
    call = _made_by_user_code()[name]
    outside = call()
    with pb.numpy_mode():
        inside = call()
    pairs = zip(
        outside if isinstance(outside, tuple) else (outside,),
        inside if isinstance(inside, tuple) else (inside,),
        strict=True,
    )
    for theirs, ours in pairs:
        np.testing.assert_array_equal(np.asarray(ours), theirs)
