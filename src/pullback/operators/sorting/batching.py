"""Rules of operators that order, search and count, and of running sums along an axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.kernels.batch_axes import (
    Array,
    Rule,
    along,
    flat,
    full,
    is_constant,
    padded,
    shifted,
    shifted_all,
)
from pullback.kernels.batch_classes import elementwise
from pullback.operators.indexing.batching import data_dependent
from pullback.operators.reduction import kernels as reduction
from pullback.operators.sorting import kernels as sorting

__all__ = ["RULES"]


def _recurrence(k: int, x: Array, factor: Array, axis: int, reverse: bool) -> Array:
    x, factor = full(k, x, factor)
    return reduction.recurrence(x, factor, shifted(k, x.ndim - k, axis), reverse)


def _tie_weights(k: int, x: Array, extreme: Array, axis: Any, keepdims: bool) -> Array:
    axes = shifted_all(k, x.ndim - k, axis) if x.ndim > k else ()
    if not keepdims:
        extreme = np.expand_dims(extreme, axes)
    return reduction.tie_weights(x, extreme, axes, True)


def _ranked(k: int, x: Array, ranks: Array, skip_nan: bool) -> Array:
    ranks, x = full(k, *padded(k, ranks, x))
    return sorting.ranked(x, ranks, skip_nan)


def _searchsorted(k: int, x: Array, v: Array, side: Any = "left", sorter: Array = None) -> Any:
    if not (is_constant(x, k) and is_constant(sorter, k)):
        return NotImplemented
    order = None if sorter is None else sorter.reshape(-1)
    return sorting.searchsorted(x.reshape(x.shape[k:]), v, side, order)


def _digitize(k: int, x: Array, bins: Array, right: bool = False) -> Any:
    return np.digitize(x, bins.reshape(-1), right) if is_constant(bins, k) else NotImplemented


def _isin(
    k: int, x: Array, test_elements: Array, *, assume_unique: bool = False, invert: bool = False
) -> Array:
    if is_constant(test_elements, k):
        return np.isin(x, test_elements, assume_unique=assume_unique, invert=invert)
    tests = flat(k, np.asarray(test_elements))
    tests = tests.reshape(*tests.shape[:k], *[1] * (x.ndim - k), tests.shape[-1])
    found = (x[..., np.newaxis] == tests).any(axis=-1)
    return ~found if invert else found


def _refused(name: str) -> Rule:
    def rule(k: int, *_: Any, **__: Any) -> Any:  # noqa: ARG001 - every rule gets it
        raise data_dependent(name)

    return rule


RULES: dict[str, Rule] = {
    "cumsum": along(np.cumsum),
    "cumprod": along(np.cumprod),
    "logcumsumexp": along(reduction.logcumsumexp),
    "cummax": along(reduction.cummax),
    "cummin": along(reduction.cummin),
    "_exclusive_cumprod": along(reduction.exclusive_cumprod),
    "_shift": along(reduction.shift),
    "_recurrence": _recurrence,
    "_tie_weights": _tie_weights,
    "sort": along(sorting.sort),
    "argsort": along(sorting.argsort),
    "argpartition": along(np.argpartition, place=2),
    "topk": along(sorting.topk, place=2),
    "kthvalue": along(sorting.kthvalue, place=2),
    "mode": along(sorting.mode),
    "_quantile_places": elementwise(sorting.quantile_places),
    "_ranked": _ranked,
    "searchsorted": _searchsorted,
    "digitize": _digitize,
    "isin": _isin,
    "argwhere": _refused("argwhere or nonzero"),
    "flatnonzero": _refused("flatnonzero"),
    "unique_all": _refused("unique_all"),
    "unique_counts": _refused("unique_counts"),
    "unique_dim": _refused("unique_dim"),
    "unique_inverse": _refused("unique_inverse"),
    "unique_values": _refused("unique"),
}
