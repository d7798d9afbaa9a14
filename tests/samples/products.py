"""Records of products."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.samples.opinfo import Make, OpInfo, Sample, call

__all__ = ["OPS"]


def _pairs(*shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> Any:
    """Samples of a function of two arrays of given shapes."""

    def samples(make: Make) -> Iterator[Sample]:
        for a, b in shapes:
            yield call(make(*a), make(*b))

    return samples


_matmul = _pairs(
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 2)),
    ((2, 3), (3, 4)),
    ((4, 2, 3), (3,)),
    ((3,), (4, 3, 2)),
    ((4, 2, 3), (3, 2)),
    ((2, 3), (4, 3, 2)),
    ((5, 4, 2, 3), (3, 2)),
    ((4, 1, 2, 3), (5, 3, 2)),
    ((1, 2, 3), (4, 3, 2)),
    ((2, 0), (0, 3)),
    ((0, 2), (2, 3)),
    ((0, 2, 3), (3, 2)),
)


def _dot(make: Make) -> Iterator[Sample]:
    for a, b in (
        ((), ()),
        ((), (2, 3)),
        ((2,), ()),
        ((3,), (3,)),
        ((2, 3), (3,)),
        ((3,), (3, 2)),
        ((2, 3), (3, 4)),
        ((2, 3), (4, 3, 2)),
        ((4, 2, 3), (5, 3, 2)),
        ((2, 0), (0, 3)),
    ):
        yield call(make(*a), make(*b))
    yield call(2.0, make(3))


_vdot = _pairs(((), ()), ((3,), (3,)), ((2, 3), (2, 3)), ((2, 3), (6,)), ((0,), (0,)))
_inner = _pairs(((), (3,)), ((3,), (3,)), ((2, 3), (4, 3)), ((3,), (2, 4, 3)), ((2, 0), (3, 0)))
_outer = _pairs(((3,), (2,)), ((), (2,)), ((2, 2), (3,)), ((0,), (2,)))
_vectors = _pairs(((3,), (2,)), ((0,), (2,)))
_kron = _pairs(((2,), (3,)), ((2, 2), (3, 2)), ((2,), (3, 2)), ((2, 3, 2), (2,)), ((), (2,)))


def _vecdot(make: Make) -> Iterator[Sample]:
    yield call(make(3), make(3))
    yield call(make(2, 3), make(3))
    yield call(make(4, 1, 3), make(2, 3))
    yield call(make(3, 2), make(3, 2), axis=0)
    yield call(make(4, 3, 2), make(3, 2), axis=-2)
    yield call(make(3, 5), make(3), axis=0)
    yield call(make(2, 0), make(2, 0))


def _tensordot(make: Make) -> Iterator[Sample]:
    yield call(make(2, 3, 4), make(3, 4, 2))
    yield call(make(2, 3), make(3, 2), 1)
    yield call(make(2, 3), make(2), 0)
    yield call(make(2, 3, 4), make(4, 5, 3), ((1, 2), (2, 0)))
    yield call(make(2, 3, 4), make(4, 5, 2), axes=([-1, 0], [0, -1]))
    yield call(make(2, 3), make(3), axes=(1, 0))
    yield call(make(2, 0), make(0, 3), 1)


def _einsum(make: Make) -> Iterator[Sample]:
    a, b, c = make(2, 3), make(3, 4), make(4, 2)
    yield call("ij,jk->ik", a, b)
    yield call("ij,jk", a, b)
    yield call("ij->ji", a)
    yield call("ij->", a)
    yield call("ij->j", a)
    yield call("ii", make(3, 3))
    yield call("ii->i", make(3, 3))
    yield call("iji->j", make(3, 2, 3))
    yield call("ii,ij->j", make(3, 3), make(3, 2))
    yield call("ij,ij->i", a, make(2, 3))
    yield call("i,j->ij", make(2), make(3))
    yield call("ij,jk,kl->il", a, b, c)
    yield call("ij,jk,kl->il", a, b, c, optimize=True)
    yield call("ij,jk,kl,lm->mi", a, b, c, make(2, 3), optimize="optimal")
    yield call("ij,jk->ik", a, b, optimize=True)
    yield call("...ij,...jk->...ik", make(5, 2, 3), make(3, 4))
    yield call("...i,...i", make(4, 1, 3), make(2, 3))
    yield call("i...,i...->i...", make(2, 3), make(2, 1))
    yield call("ij,ij->ij", make(2, 1), make(2, 3))
    yield call("ij,kj->ik", make(2, 1), make(4, 3))
    yield call(",i->i", make(), make(3))
    yield call("ij,jk->ik", make(2, 0), make(0, 3))
    yield call(a, [0, 1], b, [1, 2], [0, 2])
    yield call(a, [0, 1], b, [1, 2])
    yield call(make(2, 2, 3), [Ellipsis, 1], make(3), [1], [Ellipsis])


def _cross(make: Make) -> Iterator[Sample]:
    yield call(make(3), make(3))
    yield call(make(2, 3), make(3))
    yield call(make(4, 1, 3), make(2, 3))
    yield call(make(3, 2), make(3, 2), axis=0)
    yield call(make(3, 2), make(2, 3), axisa=0)
    yield call(make(2, 3), make(3, 2), axisb=0, axisc=0)
    yield call(make(0, 3), make(3))


def _cross_of_one_axis(make: Make) -> Iterator[Sample]:
    yield call(make(2, 3), make(2, 3))
    yield call(make(4, 1, 3), make(2, 3))
    yield call(make(3, 2), make(3, 2), axis=0)
    yield call(make(4, 3, 2), make(3, 2), axis=-2)
    yield call(make(2, 3, 2), make(2, 3, 2), axis=1)


def _trace(make: Make) -> Iterator[Sample]:
    yield call(make(3, 3))
    yield call(make(2, 3))
    yield call(make(3, 4), 1)
    yield call(make(3, 4), -2)
    yield call(make(3, 4), 9)
    yield call(make(2, 3, 4), 0, 1, 2)
    yield call(make(2, 3, 4), offset=1, axis1=-1, axis2=0)
    yield call(make(0, 3))


def _trace_of_stack(make: Make) -> Iterator[Sample]:
    yield call(make(3, 3))
    yield call(make(2, 3, 4))
    yield call(make(2, 3, 4), offset=-1)


def _convolve(make: Make) -> Iterator[Sample]:
    for n, m in ((4, 2), (4, 3), (2, 4), (3, 5), (3, 3), (1, 1)):
        yield call(make(n), make(m))
        for mode in ("full", "same", "valid"):
            yield call(make(n), make(m), mode)


def _polyval(make: Make) -> Iterator[Sample]:
    yield call(make(3), make(4))
    yield call(make(1), make(2, 2))
    yield call(make(4), make())
    yield call(make(0), make(2))


def _torch_einsum(t: Any, *args: Any, **kwargs: Any) -> Any:
    del kwargs  # PyTorch chooses the path by itself
    return t.einsum(*args)


OPS = [
    OpInfo("matmul", _matmul, np.matmul, lambda t, x, y: t.matmul(x, y)),
    OpInfo("dot", _dot, np.dot),
    OpInfo("vdot", _vdot, np.vdot, lambda t, x, y: t.vdot(x.reshape(-1), y.reshape(-1))),
    OpInfo(
        "vecdot",
        _vecdot,
        np.vecdot,
        lambda t, x, y, axis=-1: t.linalg.vecdot(
            x, y if x.ndim != 2 or axis else y.reshape(3, -1), dim=axis
        ),
    ),
    OpInfo("inner", _inner, np.inner, lambda t, x, y: t.inner(x, y)),
    OpInfo("outer", _outer, np.outer, lambda t, x, y: t.outer(x.reshape(-1), y.reshape(-1))),
    OpInfo("linalg.outer", _vectors, np.linalg.outer, lambda t, x, y: t.outer(x, y)),
    OpInfo("tensordot", _tensordot, np.tensordot),
    OpInfo("einsum", _einsum, np.einsum, _torch_einsum),
    OpInfo("kron", _kron, np.kron, lambda t, x, y: t.kron(x, y)),
    OpInfo("cross", _cross, np.cross),
    OpInfo(
        "linalg.cross",
        _cross_of_one_axis,
        np.linalg.cross,
        lambda t, x, y, axis=-1: (
            t.linalg.cross(x, y, dim=axis)
            if x.ndim == y.ndim
            else t.linalg.cross(*t.broadcast_tensors(x, y), dim=axis)
        ),
    ),
    OpInfo("trace", _trace, np.trace),
    OpInfo("linalg.trace", _trace_of_stack, np.linalg.trace),
    OpInfo("convolve", _convolve, np.convolve),
    OpInfo("correlate", _convolve, np.correlate),
    OpInfo("polyval", _polyval, np.polyval),
]
