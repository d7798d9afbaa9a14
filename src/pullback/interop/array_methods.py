"""Methods with the signatures of ndarray's: ``x.sum(axis, dtype, out, where=…)`` and its kin.

Most calls give at most an axis and go directly to the operator; calls with ``where=`` or ``out=``
go to the function with NumPy's signature.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from pullback._generated import functions_indexing as indexing
from pullback._generated import functions_pointwise as pointwise
from pullback._generated import functions_products as products
from pullback._generated import functions_reduction as reduction
from pullback._lazy import lazy_module
from pullback.interop import reductions
from pullback.interop.adapt import into
from pullback.interop.arguments import as_tensor
from pullback.tensor.tensor import Tensor

if TYPE_CHECKING:
    from pullback.interop import assembly
else:
    assembly = lazy_module("pullback.interop.assembly")

__all__ = ["ARRAY_METHODS"]

_NONE = np._NoValue
_Method = Callable[..., Tensor]
_into: _Method = into  # an array only where `out` is one


def _total_method(name: str) -> _Method:
    """``sum`` and ``prod``."""
    operator: _Method = getattr(reduction, name)
    function: _Method = getattr(reductions, name)

    def method(
        self: Tensor,
        /,
        axis: Sequence[int] | int | None = None,
        dtype: DTypeLike | None = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = _NONE,
        where: Any = True,
    ) -> Tensor:
        if out is None and initial is _NONE and where is True:
            return operator(self, axis, keepdims, dtype=dtype)
        return function(self, axis, dtype, out, keepdims, initial, where)

    return method


def _extreme_method(name: str) -> _Method:
    """``max`` and ``min``."""
    operator: _Method = getattr(reduction, name)
    function: _Method = getattr(reductions, name)

    def method(
        self: Tensor,
        /,
        axis: Sequence[int] | int | None = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = _NONE,
        where: Any = True,
    ) -> Tensor:
        if out is None and initial is _NONE and where is True:
            return operator(self, axis, keepdims)
        return function(self, axis, out, keepdims, initial, where)

    return method


def _truth_method(name: str) -> _Method:
    """``all`` and ``any``."""
    operator: _Method = getattr(reduction, name)
    function: _Method = getattr(reductions, name)

    def method(
        self: Tensor,
        /,
        axis: Sequence[int] | int | None = None,
        out: Any = None,
        keepdims: bool = False,
        *,
        where: Any = True,
    ) -> Tensor:
        if out is None and where is True:
            return operator(self, axis, keepdims)
        return function(self, axis, out, keepdims, where=where)

    return method


def _mean(
    self: Tensor,
    /,
    axis: Sequence[int] | int | None = None,
    dtype: DTypeLike | None = None,
    out: Any = None,
    keepdims: bool = False,
    *,
    where: Any = True,
) -> Tensor:
    """The mean of the elements."""
    if out is None and where is True:
        return reduction.mean(self, axis, keepdims, dtype=dtype)
    found: Tensor = reductions.mean(self, axis, dtype, out, keepdims, where=where)
    return found


def _spread_method(name: str) -> _Method:
    """``std`` and ``var``."""
    function: _Method = getattr(reductions, name)

    def method(
        self: Tensor,
        /,
        axis: Sequence[int] | int | None = None,
        dtype: DTypeLike | None = None,
        out: Any = None,
        ddof: float = 0,
        keepdims: bool = False,
        *,
        where: Any = True,
        mean: Any = _NONE,
        correction: Any = _NONE,
    ) -> Tensor:
        return function(
            self, axis, dtype, out, ddof, keepdims, where=where, mean=mean, correction=correction
        )

    return method


def _place_method(name: str) -> _Method:
    """``argmax`` and ``argmin``."""
    operator: _Method = getattr(reduction, name)

    def method(
        self: Tensor, /, axis: int | None = None, out: Any = None, *, keepdims: bool = False
    ) -> Tensor:
        return _into(out, operator(self, axis, keepdims=keepdims), name)

    return method


def _running_method(name: str) -> _Method:
    """``cumsum`` and ``cumprod``."""
    function: _Method = getattr(reductions, name)

    def method(
        self: Tensor, /, axis: int | None = None, dtype: DTypeLike | None = None, out: Any = None
    ) -> Tensor:
        return function(self, axis, dtype, out)

    return method


def _clip(self: Tensor, /, min: Any = None, max: Any = None, out: Any = None) -> Tensor:
    """The elements, none below `min` or above `max`."""
    return _into(out, pointwise.clip(self, min, max), "clip")


def _round(self: Tensor, /, decimals: int = 0, out: Any = None) -> Tensor:
    """The elements rounded to some decimals, halves to the even digit."""
    return _into(out, pointwise.round(self, decimals), "round")


def _take(
    self: Tensor, /, indices: Any, axis: int | None = None, out: Any = None, mode: str = "raise"
) -> Tensor:
    """The elements, or the slices along an axis, at some places."""
    return _into(out, indexing.take(self, indices, axis, mode), "take")


def _choose(self: Tensor, /, choices: Any, out: Any = None, mode: str = "raise") -> Tensor:
    """Elements of several arrays, picked by these integers."""
    found: Tensor = assembly.choose(self, choices, out, mode)
    return found


def _compress(self: Tensor, /, condition: Any, axis: int | None = None, out: Any = None) -> Tensor:
    """The slices along an axis for which a condition holds."""
    return _into(out, indexing.compress(condition, self, axis), "compress")


def _dot(self: Tensor, other: Any, /, out: Any = None) -> Tensor:
    """The sum of products over the last axis of this tensor and the last but one of the other."""
    return _into(out, products.dot(self, as_tensor(other)), "dot")


def _trace(
    self: Tensor,
    /,
    offset: int = 0,
    axis1: int = 0,
    axis2: int = 1,
    dtype: DTypeLike | None = None,
    out: Any = None,
) -> Tensor:
    """The sum along a diagonal."""
    return _into(out, products.trace(self, offset, axis1, axis2, dtype), "trace")


ARRAY_METHODS: dict[str, _Method] = {
    **{name: _total_method(name) for name in ("prod", "sum")},
    **{name: _extreme_method(name) for name in ("max", "min")},
    **{name: _truth_method(name) for name in ("all", "any")},
    **{name: _spread_method(name) for name in ("std", "var")},
    **{name: _place_method(name) for name in ("argmax", "argmin")},
    **{name: _running_method(name) for name in ("cumprod", "cumsum")},
    "choose": _choose,
    "clip": _clip,
    "compress": _compress,
    "dot": _dot,
    "mean": _mean,
    "round": _round,
    "take": _take,
    "trace": _trace,
}
for _name, _method in ARRAY_METHODS.items():
    _method.__name__ = _method.__qualname__ = _name
    if hasattr(reduction, _name):
        _method.__doc__ = getattr(reduction, _name).__doc__
