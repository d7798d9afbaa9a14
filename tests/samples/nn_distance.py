"""Records of distances."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np

from tests.samples.opinfo import Make, OpInfo, Sample, call

__all__ = ["OPS"]

ORDERS = (1.0, 2.0, 3.0, 1.5, 0.5, float("inf"))


def _normalize(make: Make) -> Iterator[Sample]:
    yield call(make(3, 4))
    for p in (*ORDERS, -float("inf")):
        yield call(make(2, 3), p, axis=-1)
    yield call(make(4), axis=0, eps=10.0)
    yield call(make(0, 4))


def _cosine_similarity(make: Make) -> Iterator[Sample]:
    yield call(make(3, 4), make(3, 4))
    yield call(make(3, 1, 4), make(2, 4), axis=-1)
    yield call(make(3, 4), make(4), axis=1)
    yield call(make(4), make(4), 0, 0.01)
    yield call(make(0, 4), make(0, 4))


def _pairwise_distance(make: Make) -> Iterator[Sample]:
    for p in ORDERS:
        yield call(make(3, 4), make(3, 4), p)
    yield call(make(3, 4), make(4), eps=0.1, keepdims=True)
    yield call(make(4), make(4))


def _cdist(make: Make) -> Iterator[Sample]:
    for p in ORDERS:
        yield call(make(3, 2), make(4, 2), p)
    yield call(make(2, 3, 2), make(4, 2))
    yield call(make(2, 40), make(3, 40))
    yield call(make(2, 1, 2, 40), make(3, 2, 40))
    yield call(make(0, 2), make(3, 2))


def _pdist(make: Make) -> Iterator[Sample]:
    for p in ORDERS:
        yield call(make(4, 3), p)
    yield call(make(1, 3))


def _length(x: Any, p: float, axis: int, keepdims: bool = False) -> Any:
    return np.linalg.norm(x, p, axis, keepdims)


def _normalize_reference(x: Any, p: float = 2.0, axis: int = 1, eps: float = 1e-12) -> Any:
    return x / np.maximum(_length(x, p, axis, True), eps)


def _pdist_reference(x: Any, p: float = 2.0) -> Any:
    return np.array([_length(x[i] - x[j], p, -1) for i, j in combinations(range(len(x)), 2)])


def distance(name: str, samples: Any, reference: Any, torch: Any) -> OpInfo:
    """The record of a distance between real vectors."""
    return OpInfo(f"nn.functional.{name}", samples, reference, torch, has_complex=False)


OPS = [
    distance(
        "normalize",
        _normalize,
        _normalize_reference,
        lambda t, x, p=2.0, axis=1, eps=1e-12: t.nn.functional.normalize(x, p, axis, eps),
    ),
    distance(
        "cosine_similarity",
        _cosine_similarity,
        None,
        lambda t, x, y, axis=1, eps=1e-8: t.nn.functional.cosine_similarity(x, y, axis, eps),
    ),
    distance(
        "pairwise_distance",
        _pairwise_distance,
        lambda x, y, p=2.0, eps=1e-6, keepdims=False: _length(x - y + eps, p, -1, keepdims),
        lambda t, x, y, p=2.0, eps=1e-6, keepdims=False: t.nn.functional.pairwise_distance(
            x, y, p, eps, keepdims
        ),
    ),
    distance(
        "cdist",
        _cdist,
        lambda x, y, p=2.0: _length(x[..., :, None, :] - y[..., None, :, :], p, -1),
        lambda t, x, y, p=2.0: t.cdist(x, y, p),
    ),
    distance("pdist", _pdist, _pdist_reference, lambda t, x, p=2.0: t.nn.functional.pdist(x, p)),
]
