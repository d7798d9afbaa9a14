"""Records of operators that move elements about."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.samples.opinfo import Make, OpInfo, Sample, call

__all__ = ["OPS"]


def _reshape(make: Make) -> Iterator[Sample]:
    yield call(make(2, 3), (3, 2))
    yield call(make(2, 3), -1)
    yield call(make(3, 2).T, (6,))
    yield call(make(), (1, 1))
    yield call(make(0, 2), (2, 0))
    yield call(make(2, 3), (3, 2), "F")
    yield call(make(2, 3), (6,), copy=True)


def _reshaped(x: Any, shape: Any, order: Any = "C", *, copy: bool | None = None) -> Any:
    """``np.reshape``, which takes `copy` since NumPy 2.1."""
    result = np.reshape(x, shape, order)
    return result.copy() if copy else result


def _permute_dims(make: Make) -> Iterator[Sample]:
    yield call(make(2, 3, 4), (2, 0, 1))
    yield call(make(2, 3, 4), (-1, 0, 1))
    yield call(make(2, 3))
    yield call(make())


def _matrix_transpose(make: Make) -> Iterator[Sample]:
    yield call(make(2, 3))
    yield call(make(2, 3, 4))
    yield call(make(0, 3))


def _swapaxes(make: Make) -> Iterator[Sample]:
    yield call(make(2, 3, 4), 0, 2)
    yield call(make(2, 3, 4), -1, 1)
    yield call(make(3), 0, 0)


def _moveaxis(make: Make) -> Iterator[Sample]:
    yield call(make(2, 3, 4), 0, -1)
    yield call(make(2, 3, 4), (0, 1), (-1, 0))
    yield call(make(2, 0, 4), [2], [0])


def _expand_dims(make: Make) -> Iterator[Sample]:
    yield call(make(2, 3), 0)
    yield call(make(2, 3), -1)
    yield call(make(2, 3), (0, 2))
    yield call(make(), 0)


def _squeeze(make: Make) -> Iterator[Sample]:
    yield call(make(1, 3, 1))
    yield call(make(1, 3, 1), 0)
    yield call(make(1, 3, 1), (0, -1))
    yield call(make(2, 3))
    yield call(make(1, 0))


def _broadcast_to(make: Make) -> Iterator[Sample]:
    yield call(make(3), (2, 3))
    yield call(make(2, 1), (2, 3))
    yield call(make(), (2, 2))
    yield call(make(1), (0,))


def _diagonal(make: Make) -> Iterator[Sample]:
    yield call(make(3, 3))
    yield call(make(3, 4), 1)
    yield call(make(3, 4), -1)
    yield call(make(2, 3, 4), 0, 0, 2)
    yield call(make(2, 3, 4), 1, -1, -2)
    yield call(make(3, 3), 5)


def _concatenate(make: Make) -> Iterator[Sample]:
    yield call([make(2, 3), make(1, 3)])
    yield call([make(2, 3), make(2, 1), make(2, 0)], 1)
    yield call([make(2, 3), make(2, 1)], -1)
    yield call([make(2, 3), make(2)], None)
    yield call([make(3)])


def _stack(make: Make) -> Iterator[Sample]:
    yield call([make(2, 3), make(2, 3)])
    yield call([make(2, 3), make(2, 3), make(2, 3)], 1)
    yield call([make(2, 3), make(2, 3)], -1)
    yield call([make(), make()])


def _unbind(make: Make) -> Iterator[Sample]:
    yield call(make(3))
    yield call(make(2, 3), 1)
    yield call(make(2, 3, 2), -1)


def _sliding_window_view(make: Make) -> Iterator[Sample]:
    yield call(make(5), 2)
    yield call(make(4, 5), (2, 3))
    yield call(make(4, 5), 2, -1)
    yield call(make(3, 6), (2, 2), (1, 1))
    yield call(make(2), 1)


def _rollaxis(make: Make) -> Iterator[Sample]:
    yield call(make(2, 3, 4), 2)
    yield call(make(2, 3, 4), 0, 3)
    yield call(make(2, 3, 4), -1, -2)


def _ravel(make: Make) -> Iterator[Sample]:
    yield call(make(2, 3))
    yield call(make(2, 3), "F")
    yield call(make())
    yield call(make(0, 2))


def _diag(make: Make) -> Iterator[Sample]:
    yield call(make(3))
    yield call(make(2), 1)
    yield call(make(2), -2)
    yield call(make(3, 4))
    yield call(make(3, 4), -1)


def _diag_embed(make: Make) -> Iterator[Sample]:
    yield call(make(3))
    yield call(make(2, 3), 1)
    yield call(make(2, 3), offset=-2, axis1=0, axis2=2)
    yield call(make(2, 1, 3), axis1=-1, axis2=1)
    yield call(make(2, 0), 1)


def _torch_diag_embed(t: Any, x: Any, offset: int = 0, axis1: int = -2, axis2: int = -1) -> Any:
    return t.diag_embed(x, offset, axis1, axis2)


def _diagflat(make: Make) -> Iterator[Sample]:
    yield call(make(2, 2))
    yield call(make(2), -1)
    yield call(make())


def _contiguous(make: Make) -> Iterator[Sample]:
    yield call(make(2, 3))
    yield call(make(2, 3).T)
    yield call(make())


def _hstack(make: Make) -> Iterator[Sample]:
    yield call([make(2), make(3)])
    yield call([make(2, 3), make(2, 1)])
    yield call([make(), make()])


def _vstack(make: Make) -> Iterator[Sample]:
    yield call([make(2), make(2)])
    yield call([make(1, 3), make(2, 3)])
    yield call([make(), make()])


def _dstack(make: Make) -> Iterator[Sample]:
    yield call([make(2), make(2)])
    yield call([make(2, 3), make(2, 3)])
    yield call([make(2, 1, 3), make(2, 1, 1)])


def _column_stack(make: Make) -> Iterator[Sample]:
    yield call([make(2), make(2, 3)])
    yield call([make(3), make(3)])


def _append(make: Make) -> Iterator[Sample]:
    yield call(make(2, 3), make(2))
    yield call(make(2, 3), make(1, 3), 0)


def _split(make: Make) -> Iterator[Sample]:
    yield call(make(6), 3)
    yield call(make(2, 6), [1, 4], 1)
    yield call(make(6), [2, 2, 9])
    yield call(make(6), [4, 2])
    yield call(make(6, 2), [-2], -2)


def _array_split(make: Make) -> Iterator[Sample]:
    yield call(make(7), 3)
    yield call(make(2, 5), [1, 4], 1)
    yield call(make(2), 3)


def _hsplit(make: Make) -> Iterator[Sample]:
    yield call(make(6), 3)
    yield call(make(2, 6), [1, 4])


def _vsplit(make: Make) -> Iterator[Sample]:
    yield call(make(4, 2), 2)
    yield call(make(4, 2), [1])


def _dsplit(make: Make) -> Iterator[Sample]:
    yield call(make(1, 2, 4), 2)
    yield call(make(1, 2, 4), [1])


def _expand(make: Make) -> Iterator[Sample]:
    yield call(make(3), 2, 3)
    yield call(make(2, 1), (4, -1, 3))
    yield call(make(), 2)


def _narrow(make: Make) -> Iterator[Sample]:
    yield call(make(4, 3), 0, 1, 2)
    yield call(make(4, 3), -1, -2, 2)
    yield call(make(4), 0, 4, 0)


def _select_slice(make: Make) -> Iterator[Sample]:
    yield call(make(4, 3), 0, 1)
    yield call(make(4, 3), -1, -2)


def _unfold(make: Make) -> Iterator[Sample]:
    yield call(make(5), 0, 2, 1)
    yield call(make(2, 5), 1, 3, 2)
    yield call(make(5, 2), -2, 2, 3)


def _chunk(make: Make) -> Iterator[Sample]:
    yield call(make(5), 2)
    yield call(make(2, 5), 4, 1)
    yield call(make(2), 5, -1)


VIEWS = [
    OpInfo("reshape", _reshape, _reshaped),
    OpInfo("permute_dims", _permute_dims, np.transpose),
    OpInfo("transpose", _permute_dims, np.transpose),
    OpInfo("matrix_transpose", _matrix_transpose, np.matrix_transpose, lambda _, x: x.mT),
    OpInfo("swapaxes", _swapaxes, np.swapaxes, lambda _, x, a, b: x.swapaxes(a, b)),
    OpInfo("moveaxis", _moveaxis, np.moveaxis, lambda t, x, a, b: t.moveaxis(x, a, b)),
    OpInfo("rollaxis", _rollaxis, np.rollaxis),
    OpInfo("expand_dims", _expand_dims, np.expand_dims),
    OpInfo("squeeze", _squeeze, np.squeeze),
    OpInfo("broadcast_to", _broadcast_to, np.broadcast_to, lambda t, x, s: t.broadcast_to(x, s)),
    OpInfo("diagonal", _diagonal, np.diagonal, lambda t, x, *a: t.diagonal(x, *a)),
    OpInfo("sliding_window_view", _sliding_window_view, np.lib.stride_tricks.sliding_window_view),
    OpInfo("ravel", _ravel, np.ravel),
    OpInfo("diag", _diag, np.diag, lambda t, x, k=0: t.diag(x, k)),
    OpInfo("diag_embed", _diag_embed, None, _torch_diag_embed),
    OpInfo("diagflat", _diagflat, np.diagflat, lambda t, x, k=0: t.diagflat(x, k)),
    OpInfo("ascontiguousarray", _contiguous, np.ascontiguousarray),
]
JOINS = [
    OpInfo("concatenate", _concatenate, np.concatenate),
    OpInfo("concat", _concatenate, np.concatenate),
    OpInfo("stack", _stack, np.stack, lambda t, x, axis=0: t.stack(x, axis)),
    OpInfo("hstack", _hstack, np.hstack, lambda t, x: t.hstack(x)),
    OpInfo("vstack", _vstack, np.vstack, lambda t, x: t.vstack(x)),
    OpInfo("dstack", _dstack, np.dstack, lambda t, x: t.dstack(x)),
    OpInfo("column_stack", _column_stack, np.column_stack, lambda t, x: t.column_stack(x)),
    OpInfo("append", _append, np.append),
    OpInfo("unbind", _unbind, lambda x, axis=0: list(np.moveaxis(x, axis, 0))),
    OpInfo("unstack", _unbind, None, lambda t, x, axis=0: t.unbind(x, axis)),
    OpInfo("split", _split, np.split),
    OpInfo("array_split", _array_split, np.array_split),
    OpInfo("hsplit", _hsplit, np.hsplit, lambda t, x, cuts: t.hsplit(x, cuts)),
    OpInfo("vsplit", _vsplit, np.vsplit, lambda t, x, cuts: t.vsplit(x, cuts)),
    OpInfo("dsplit", _dsplit, np.dsplit, lambda t, x, cuts: t.dsplit(x, cuts)),
]
# Methods only, so they are reached through the class.
METHODS = [
    OpInfo("Tensor.expand", _expand, None, lambda _, x, *shape: x.expand(*shape)),
    OpInfo("Tensor.flatten", _ravel, lambda x, order="C": x.flatten(order)),
    OpInfo("Tensor.narrow", _narrow, None, lambda _, x, *args: x.narrow(*args)),
    OpInfo("Tensor.select", _select_slice, None, lambda _, x, *args: x.select(*args)),
    OpInfo("Tensor.unfold", _unfold, None, lambda _, x, *args: x.unfold(*args)),
    OpInfo("Tensor.chunk", _chunk, None, lambda _, x, *args: x.chunk(*args)),
]
OPS = [*VIEWS, *JOINS, *METHODS]
