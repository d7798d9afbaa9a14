"""Records of operators that pick elements by number or by truth, and write to them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.samples.opinfo import Make, OpInfo, Sample, call

__all__ = ["OPS"]


def _index_put(make: Make) -> Iterator[Sample]:
    yield call(make(4), [np.array([0, 2])], make(2))
    yield call(make(4, 3), [np.array([[0, 2], [1, -1]])], make(2, 2, 3))
    yield call(make(4, 3), [None, np.array([0, 2])], make(2))
    yield call(make(4, 3), [np.array([0, 2]), np.array([1])], make())
    yield call(make(4, 3), [make.bools(4, 3)], make(1))
    yield call(make(4), [np.array([0, 0, 1])], make(3), True)
    yield call(make(4, 3), [np.array([1, 1])], make(2, 3), True)
    yield call(make(4), [np.array([True, False, True, True])], make(3), True)
    yield call(make(4), [np.zeros(0, int)], make(0))


def _put_at(x: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    where: Any = tuple(slice(None) if i is None else i for i in indices)
    result = x.copy()
    if accumulate:
        np.add.at(result, where, values)
    else:
        result[where] = values
    return result


def _torch_put(t: Any, x: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    where = tuple(slice(None) if i is None else t.as_tensor(i) for i in indices)
    if all(i is not None for i in indices):
        return x.index_put(where, values, accumulate)
    result = x.clone()
    result[where] = values
    return result


def _take(make: Make) -> Iterator[Sample]:
    yield call(make(4), [0, 2, 2, -1])
    yield call(make(3, 4), [0, 5, 5])
    yield call(make(3, 4), np.array([[0, 2], [1, 1]]), 1)
    yield call(make(3, 4), 2, -1)
    yield call(make(3), [4, -5], 0, mode="wrap")
    yield call(make(3), [4, -5], 0, mode="clip")
    yield call(make(3), np.zeros(0, int))


def _taken_along_axis(x: Any, indices: Any, axis: int | None = -1) -> Any:
    """``np.take_along_axis``, whose axis has a default since NumPy 2.3."""
    return np.take_along_axis(x, indices, axis)


def _take_along_axis(make: Make) -> Iterator[Sample]:
    yield call(make(3, 4), make.ints(3, 2, high=4))
    yield call(make(3, 4), make.ints(5, 4, high=3), 0)
    yield call(make(3, 4), make.ints(1, 2, high=4), 1)
    yield call(make(3, 4), make.ints(6, high=12), None)
    yield call(make(3), np.array([-1, -1, 0]))


def _put_along_axis(make: Make) -> Iterator[Sample]:
    yield call(make(3, 4), np.array([[0, 2], [1, 3], [2, 0]]), make(3, 2))
    yield call(make(3, 4), np.array([[0, 2, 1, -1]]), make(1, 4), 0)
    yield call(make(3, 4), np.array([[0], [1], [2]]), make(), 1)
    yield call(make(2, 3), np.array([0, 4, 5]), make(3), None)


def _put_along(x: Any, indices: Any, values: Any, axis: int | None = -1) -> Any:
    result = x.copy()
    np.put_along_axis(result, indices, values, axis)
    return result


def _gather(make: Make) -> Iterator[Sample]:
    yield call(make(3, 4), 1, make.ints(3, 2, high=4))
    yield call(make(3, 4), 0, make.ints(5, 2, high=3))
    yield call(make(3, 4), -1, make.ints(2, 2, high=4))
    yield call(make(3), 0, np.zeros(0, int))


def _scatter(make: Make) -> Iterator[Sample]:
    yield call(make(3, 4), 1, np.array([[0, 2], [1, 3], [2, 0]]), make(3, 2))
    yield call(make(3, 4), 0, np.array([[0, 2], [2, 1]]), make(2, 2))
    yield call(make(4), -1, np.array([3, 1]), make(2))


def _scatter_add(make: Make) -> Iterator[Sample]:
    yield call(make(3, 4), 1, make.ints(3, 5, high=4), make(3, 5))
    yield call(make(3, 4), 0, make.ints(4, 2, high=3), make(4, 2))
    yield call(make(4), -1, np.array([1, 1]), make(2))


def _scatter_reduce(make: Make) -> Iterator[Sample]:
    for reduce in ("sum", "prod", "mean"):
        yield call(make(3, 4), 1, make.ints(3, 5, high=4), make(3, 5), reduce)
        yield call(make(3, 4), 0, make.ints(4, 2, high=3), make(4, 2), reduce, include_self=False)
        yield call(make(4), -1, np.array([1, 1]), make(3), reduce)
    yield call(make(), 0, np.array(0), make(), "prod")
    yield call(make(3), 0, np.zeros(0, int), make(0), "mean", include_self=False)
    if make.is_complex:
        return
    for zeros in ([1, 0, 1], [0, 0, 1]):
        src = make(3) * np.array(zeros, make.dtype)
        yield call(make(2), 0, np.array([1, 1, 1]), src, "prod")
    for reduce in ("amax", "amin"):
        yield call(make(3, 4), 1, make.ints(3, 5, high=4), make(3, 5), reduce)
        yield call(make(4), 0, make.ints(5, high=4), make(5), reduce, include_self=False)


def _torch_reduce(
    t: Any, x: Any, axis: int, index: Any, src: Any, reduce: str, include_self: bool = True
) -> Any:
    """PyTorch's own has no gradient for complex numbers, nor for a source longer than the index."""
    index = t.as_tensor(index)
    src = src[tuple(map(slice, index.shape))]
    if not x.is_complex():
        return x.scatter_reduce(axis, index, src, reduce, include_self=include_self)
    if not include_self:
        x = x.scatter(axis, index, float(reduce == "prod"))
    if reduce == "prod":
        return x.log().scatter_add(axis, index, src.log()).exp()
    total = x.scatter_add(axis, index, src)
    if reduce == "sum":
        return total
    count = t.full(x.shape, int(include_self)).scatter_add(axis, index, t.ones_like(index))
    return total / count.clamp(min=1)


def _index_add(make: Make) -> Iterator[Sample]:
    yield call(make(4), 0, np.array([1, 1, 3]), make(3))
    yield call(make(2, 3), 1, np.array([0, 0]), make(2, 2))
    yield call(make(2, 3), -1, np.array([2]), make(2, 1))


def _index_reduce(make: Make) -> Iterator[Sample]:
    for reduce in ("prod", "mean", "amax", "amin"):
        yield call(make(4), 0, np.array([1, 1, 3]), make(3), reduce)
        yield call(make(2, 3), 1, np.array([0, 0]), make(2, 2), reduce, include_self=False)
        yield call(make(2, 3), -1, np.array([2]), make(2, 1), reduce)


def _torch_index_reduce(t: Any, x: Any, axis: int, index: Any, *args: Any, **kwargs: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's function is in beta
        return x.index_reduce(axis, t.as_tensor(index), *args, **kwargs)


def _index_select(make: Make) -> Iterator[Sample]:
    yield call(make(4), 0, np.array([1, 1, 3]))
    yield call(make(2, 3), -1, np.array([0, 0]))


def _compress(make: Make) -> Iterator[Sample]:
    yield call(np.array([True, False, True]), make(3, 2), 0)
    yield call(np.array([False, True]), make(3, 4), 1)
    yield call(np.array([True, False, True]), make(2, 3))


def _masked_fill(make: Make) -> Iterator[Sample]:
    yield call(make(2, 3), make.bools(2, 3), make())
    yield call(make(2, 3), make.bools(3), make())
    yield call(make(2, 3), make.bools(2, 1), 1.5)
    yield call(make(), np.array(True), make())


def _masked_select(make: Make) -> Iterator[Sample]:
    yield call(make(2, 3), make.bools(2, 3))
    yield call(make(2, 3), make.bools(3))
    yield call(make(3), make.bools(2, 3))


def _extract(make: Make) -> Iterator[Sample]:
    yield call(make.bools(2, 3), make(2, 3))
    yield call(make.bools(3), make(3))


def _choose(make: Make) -> Iterator[Sample]:
    yield call(np.array([0, 2, 1]), [make(3), make(3), make()])
    yield call(np.array([[0], [1]]), [make(3), make(2, 3)])
    yield call(np.array([-1, 5]), [make(2), make(2)], mode="clip")
    yield call(np.array([-1, 5]), [make(2), make(2)], mode="wrap")


def _put(make: Make) -> Iterator[Sample]:
    yield call(make(4), [0, -1], make(2))
    yield call(make(2, 3), [0, 4, 5], make(2))
    yield call(make(2, 3), 4, make())
    yield call(make(3), [4], make(1), "wrap")


def _put_in_a_row(x: Any, *args: Any) -> Any:
    result = x.copy()
    np.put(result, *args)
    return result


def _fill_diagonal(make: Make) -> Iterator[Sample]:
    yield call(make(3, 3), make())
    yield call(make(3, 2), make(2))
    yield call(make(2, 3), make(1))
    yield call(make(7, 3), make(2), True)
    yield call(make(2, 2, 2), make())


def _filled_diagonal(x: Any, *args: Any) -> Any:
    result = x.copy()
    np.fill_diagonal(result, *args)
    return result


def _select(make: Make) -> Iterator[Sample]:
    yield call([make.bools(3), make.bools(3)], [make(3), make(3)], make())
    yield call([make.bools(2, 3)], [make(3)])


def _piecewise(make: Make) -> Iterator[Sample]:
    yield call(make(4), [np.array([True, False, True, False])], [lambda v: v * v, 2.0])
    yield call(make(2, 2), [make.bools(2, 2), make.bools(2, 2)], [lambda v: -v, lambda v: v * v])
    yield call(make(3), [np.zeros(3, bool)], [lambda v: v, lambda v: v * v])


BY_NUMBER = [
    OpInfo("index_put", _index_put, _put_at, _torch_put, inplace="index_put_"),
    OpInfo("take", _take, np.take),
    OpInfo("take_along_axis", _take_along_axis, _taken_along_axis),
    OpInfo(
        "_generated.functions_indexing._put_along_axis",  # the public one writes in place
        _put_along_axis,
        _put_along,
        inplace="put_along_axis_",
    ),
    OpInfo("_generated.functions_indexing._put", _put, _put_in_a_row, inplace="put_"),
    OpInfo(
        "_generated.functions_indexing._fill_diagonal",
        _fill_diagonal,
        _filled_diagonal,
        inplace="fill_diagonal_",
    ),
    OpInfo("compress", _compress, np.compress),
    OpInfo("extract", _extract, np.extract),
    OpInfo("choose", _choose, np.choose),
    OpInfo("select", _select, np.select),
    OpInfo("piecewise", _piecewise, np.piecewise),
]
# Methods only, so they are reached through the class.
METHODS = [
    OpInfo(
        "Tensor.gather",
        _gather,
        None,
        lambda t, x, axis, i: x.gather(axis, t.as_tensor(i)),
    ),
    OpInfo(
        "Tensor.scatter",
        _scatter,
        None,
        lambda t, x, axis, i, s: x.scatter(axis, t.as_tensor(i), s),
        inplace="scatter_",
    ),
    OpInfo(
        "Tensor.scatter_add",
        _scatter_add,
        None,
        lambda t, x, axis, i, s: x.scatter_add(axis, t.as_tensor(i), s),
        inplace="scatter_add_",
    ),
    OpInfo(
        "Tensor.scatter_reduce",
        _scatter_reduce,
        None,
        _torch_reduce,
        inplace="scatter_reduce_",
    ),
    OpInfo(
        "Tensor.index_add",
        _index_add,
        None,
        lambda t, x, axis, i, s: x.index_add(axis, t.as_tensor(i), s),
        inplace="index_add_",
    ),
    OpInfo(
        "Tensor.index_reduce",
        _index_reduce,
        None,
        _torch_index_reduce,
        has_complex=False,
        inplace="index_reduce_",
    ),
    OpInfo(
        "Tensor.index_select",
        _index_select,
        lambda x, axis, i: np.take(x, i, axis),
        lambda t, x, axis, i: x.index_select(axis, t.as_tensor(i)),
    ),
    OpInfo(
        "Tensor.masked_fill",
        _masked_fill,
        lambda x, mask, value: np.where(mask, value, x),
        lambda t, x, mask, value: x.masked_fill(t.as_tensor(mask), value),
        inplace="masked_fill_",
    ),
    OpInfo(
        "Tensor.masked_select",
        _masked_select,
        lambda x, mask: np.broadcast_arrays(x, mask)[0][np.broadcast_arrays(x, mask)[1]],
        lambda t, x, mask: x.masked_select(t.as_tensor(mask)),
    ),
]
OPS = [*BY_NUMBER, *METHODS]
