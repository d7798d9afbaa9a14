"""Records of functions that make tensors, where gradients pass through them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.samples.opinfo import Make, OpInfo, Sample, call

__all__ = ["OPS"]


def _linspace(make: Make) -> Iterator[Sample]:
    yield call(make(), make(), 5)
    yield call(make(), make(), 4, False)
    yield call(make(2), make(3, 1), 3)
    yield call(make(2), 1.5, 3, axis=-1)
    yield call(make(), make(), 1)
    yield call(make(), make(), 0)


def _logspace(make: Make) -> Iterator[Sample]:
    yield call(make(), make(), 5)
    yield call(make(2), 1.5, 3, base=2.0)


def _geomspace(make: Make) -> Iterator[Sample]:
    yield call(make(low=1.0), make(low=2.0, high=5.0), 5)
    yield call(make(2, low=1.0), make(2, low=2.0, high=5.0), 4, False)
    yield call(make(2, low=-4.0, high=-1.0), -2.5, 3, axis=1)


def _vander(make: Make) -> Iterator[Sample]:
    yield call(make(3))
    yield call(make(3), 2)
    yield call(make(2), 4, increasing=True)


def _full(make: Make) -> Iterator[Sample]:
    yield call((2, 3), make())
    yield call(2, make(2))
    yield call((0,), make())


def _full_like(make: Make) -> Iterator[Sample]:
    yield call(np.zeros((2, 3), make().dtype), make())


def _array(make: Make) -> Iterator[Sample]:
    yield call([make(), make()])
    yield call([make(2), make(2)])
    yield call(make(2, 3))


OPS = [
    OpInfo("linspace", _linspace, np.linspace),
    OpInfo("logspace", _logspace, np.logspace, has_complex=False),
    OpInfo("geomspace", _geomspace, np.geomspace),
    OpInfo("vander", _vander, np.vander),
    OpInfo("full", _full, np.full),
    OpInfo("full_like", _full_like, np.full_like),
    OpInfo("asarray", _array, np.asarray),
    OpInfo("array", _array, np.array),
    OpInfo("copy", _array, np.array),
]
