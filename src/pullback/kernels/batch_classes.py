"""Rules of whole classes of operators: element by element, and reductions.

The class of an operator is a tag in its table.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from pullback.kernels.batch_axes import Array, Rule, padded, shifted, shifted_all

__all__ = ["elementwise", "native", "reduction"]

_BY_INDEX = frozenset({"argmax", "argmin", "nanargmax", "nanargmin"})


def native(function: Callable[..., Any]) -> Rule:
    """Makes the rule of a function that accepts any leading axes."""

    def rule(k: int, *args: Any, **kwargs: Any) -> Any:  # noqa: ARG001 - every rule gets it
        return function(*args, **kwargs)

    return rule


def elementwise(function: Callable[..., Any]) -> Rule:
    """Makes the rule of a function that broadcasts its arrays, at any argument positions."""

    def rule(k: int, *args: Any, **kwargs: Any) -> Any:
        values = list(args)
        places = [i for i, value in enumerate(values) if isinstance(value, np.ndarray)]
        if len(places) > 1:
            for place, array in zip(places, padded(k, *(values[i] for i in places)), strict=True):
                values[place] = array
        return function(*values, **kwargs)

    rule.function = function  # type: ignore[attr-defined]  # for arrays of one number of axes
    return rule


def reduction(name: str, function: Callable[..., Any]) -> Rule:
    """The rule of a function that reduces over one axis, some, or all."""

    def rule(k: int, x: Array, axis: Any = None, keepdims: bool = False, **kwargs: Any) -> Any:
        if x.ndim > k or axis is None:
            axes = shifted_all(k, x.ndim - k, axis)
        else:  # of a number, NumPy takes axes that a vector has
            normalize_axis_tuple(axis, 1)
            axes = ()
        return function(x, axis=axes, keepdims=keepdims, **kwargs)

    def rule_by_index(k: int, x: Array, axis: int | None = None, *, keepdims: bool = False) -> Any:
        ndim = x.ndim - k
        if axis is None or not ndim:
            if axis is not None:
                normalize_axis_index(axis, 1)
            row = x.reshape(*x.shape[:k], prod(x.shape[k:]))
            found = function(row, axis=-1)
            return found.reshape(*x.shape[:k], *[1] * ndim) if keepdims else found
        return function(x, axis=shifted(k, ndim, axis), keepdims=keepdims)

    return rule_by_index if name in _BY_INDEX else rule
