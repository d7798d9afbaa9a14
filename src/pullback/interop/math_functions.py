"""Python's ``math`` on tensors of one element, for `numpy_mode`.

Programs for NumPy call ``math.sqrt`` where they hold a single number. Outside of the mode such a
call converts the tensor, which warns; inside, these functions take its place and record. Those
whose results are integers or booleans have nothing to record, and stay as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any

import numpy as np

from pullback._generated import functions_pointwise as pointwise
from pullback._generated import functions_reduction as reduction
from pullback._generated import functions_shape as shape
from pullback._generated import functions_special as special
from pullback.interop.arguments import as_tensor, plain, tensors_in, words
from pullback.tensor.tensor import Tensor, has_values

__all__ = ["MATH"]


def _log(x: Any, *base: Any) -> Any:
    if not base:
        return pointwise.log(x)
    return pointwise.log(x) / pointwise.log(base[0])


def _hypot(*coordinates: Any) -> Any:
    return reduce(pointwise.hypot, coordinates, as_tensor(0.0))


def _joined(values: Any) -> Tensor:
    return shape.stack([as_tensor(value) for value in values])


def _fsum(values: Any) -> Any:
    return reduction.sum(_joined(values))


def _prod(values: Any, *, start: Any = 1) -> Any:
    return reduction.prod(_joined(values)) * start


def _dist(p: Any, q: Any) -> Any:
    apart = _joined(p) - _joined(q)
    return pointwise.sqrt(reduction.sum(apart * apart))


def _as_float(value: Any) -> Any:
    """An argument; integers and truth values as Python's floats, and not as NumPy's float16."""
    is_whole = isinstance(value, Tensor) and value.dtype.kind in "bui"
    return value.astype(np.float64) if is_whole else value


_ALIKE = words("""
    acos acosh asin asinh atan atan2 atanh cbrt copysign cos cosh exp exp2 expm1 fmod log10 log1p
    log2 sin sinh sqrt tan tanh
""")
_OTHERS: dict[str, Callable[..., Any]] = {
    "degrees": pointwise.rad2deg,
    "dist": _dist,
    "erf": special.erf,
    "erfc": special.erfc,
    "fabs": pointwise.abs,
    "fsum": _fsum,
    "gamma": special.gamma,
    "hypot": _hypot,
    "lgamma": special.lgamma,
    "log": _log,
    "pow": pointwise.power,
    "prod": _prod,
    "radians": pointwise.deg2rad,
}


def _recording(original: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
    """Our function where there are tensors; the original's errors outside of its domain."""

    def call(*args: Any, **kwargs: Any) -> Any:
        listed = [list(a) if isinstance(a, Iterator) else a for a in args]
        tensors = list(tensors_in([listed, kwargs]))
        if not tensors and not kwargs:
            for number in listed:  # of a program that is traced
                if hasattr(number, "__pullback_call__"):
                    return number.__pullback_call__(original, *listed)
        if all(map(has_values, tensors)):
            value = original(*plain(listed), **plain(kwargs))
        return ours(*map(_as_float, listed), **kwargs) if tensors else value

    return call


MATH: dict[str, Callable[..., Any]] = {
    name: _recording(getattr(math, name), ours)
    for name, ours in {**{n: getattr(pointwise, n) for n in _ALIKE}, **_OTHERS}.items()
}
