"""Lowering rules by hand: products, indexing and moved elements.

A rule takes the arguments of an operator (tensors as ``Value`` objects) and returns a ``Value``. It
raises ``CannotLower`` for what it has no form for; the operator then stays opaque. What the tables
say in the field ``lower``, whose expressions may call these rules, needs no rule of its own, nor do
in-place and ``out=`` variants.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from itertools import pairwise, product
from math import prod
from typing import Any, NamedTuple, TypeVar

import numpy as np

from pullback.compiled.lowering.builder import INT64, Builder, LoopMaker
from pullback.compiled.lowering.expressions import (
    CannotLower,
    Value,
    apply,
    axes_of,
    cast,
    reduce,
    sum_dtype,
    total,
    where,
)
from pullback.compiled.lowering.ir import Place, c_strides

__all__ = ["HELPERS", "MOVES", "RULES", "affine_place", "move_elements"]

_Rule = Callable[..., Any]
_MOST_RUNNING = 4096  # elements of running results that are a loop
_MOST_ROW = 256  # of one step

RULES: dict[str, _Rule] = {}
MOVES = frozenset(["flip", "roll", "tile", "repeat"])
"""Operators that copy elements to other places, besides views."""
_MOST_SHUFFLED = 256  # elements of a value in registers
_MOST_PIECES = 9  # two shifts of two axes make nine

_R = TypeVar("_R", bound=_Rule)


def _rule(*names: str) -> Callable[[_R], _R]:
    def register(function: _R) -> _R:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


# --- moved elements -------------------------------------------------------------------------------


def affine_place(positions: Any) -> Place | None:
    """The place whose positions an array of integers has; None if there is none.

    >>> affine_place(np.arange(6).reshape(2, 3)[:, ::-1])
    Place(offset=2, strides=(3, -1), shape=(2, 3), step=0)
    """
    shape = positions.shape
    if positions.size == 0:
        return Place(0, (0,) * len(shape), shape)
    first = positions[(0,) * len(shape)]
    strides = []
    for axis, length in enumerate(shape):
        at = [0] * len(shape)
        at[axis] = min(1, length - 1)
        strides.append(int(positions[tuple(at)] - first))
    place = Place(int(first), tuple(strides), shape)
    return place if bool((place.positions() == positions).all()) else None


def _numbers(shape: Any) -> Any:
    """The flat position of each element."""
    return np.arange(prod(shape)).reshape(tuple(shape))


def move_elements(x: Value, positions: Any) -> Value:
    """The elements at given flat positions: a view, a few views side by side, or a ``take``.

    Elements in registers are shuffled; large values are copied piece by piece, which needs no
    memory for positions (20 shifts of a million elements: 12 instead of 32 ms).
    """
    place = affine_place(positions)
    if place is not None:
        return x.like(x.builder.view(x.node, place))
    pieces = _find_pieces(positions) if positions.size > _MOST_SHUFFLED else None
    if pieces is not None:
        parts = [(own, x.builder.view(x.node, place)) for own, place in pieces]
        return x.like(x.builder.assemble(positions.shape, x.dtype, parts))
    index = x.builder.const(np.asarray(positions, np.int64))
    return x.like(x.builder.take(x.node, index))


def _find_pieces(positions: Any) -> list[tuple[Place, Place]] | None:
    """Places of an array, and the places whose elements they get; None if they would be many."""
    cuts = []
    for axis, length in enumerate(positions.shape):
        line = positions[(*[0] * axis, slice(None), *[0] * (positions.ndim - axis - 1))]
        steps = np.diff(line)
        ends = np.flatnonzero(steps != np.median(steps)) + 1 if length > 2 else steps[:0]
        cuts.append(list(pairwise([0, *ends.tolist(), length])))
    if prod(map(len, cuts)) > _MOST_PIECES:
        return None
    numbers, found = _numbers(positions.shape), []
    for ranges in product(*cuts):
        piece = tuple(slice(*ends) for ends in ranges)
        own, place = affine_place(numbers[piece]), affine_place(positions[piece])
        if own is None or place is None:
            return None
        found.append((own.normalized, place))
    return found


def _spread(grad: Value, shape: Any, positions: Any) -> Value:
    """Zeros of a shape with the elements of `grad` at flat positions."""
    place = affine_place(positions)
    if place is None:
        raise CannotLower("an index that is no view")
    part = grad.builder.broadcast(grad.node, place.shape)
    return grad.like(grad.builder.assemble(tuple(shape), grad.dtype, [(place, part)]))


@_rule("getitem_backward")
def _getitem_backward(grad: Value, shape: Any, index: Any) -> Value:
    return _spread(grad, shape, _numbers(shape)[index])


@_rule("diagonal_backward")
def _diagonal_backward(
    grad: Value, shape: Any, offset: int = 0, axis1: int = 0, axis2: int = 1
) -> Value:
    return _spread(grad, shape, np.diagonal(_numbers(shape), offset, axis1, axis2))


@_rule("concatenate")
def _concatenate(tensors: list[Value], axis: int | None = 0) -> Value:
    builder = tensors[0].builder
    dtype = np.result_type(*[t.dtype for t in tensors])
    nodes = [builder.cast(t.node, dtype) for t in tensors]
    if axis is None:
        nodes = [builder.reshape(n, (n.size,)) for n in nodes]
        axis = 0
    axis %= len(nodes[0].shape)
    length = sum(n.shape[axis] for n in nodes)
    shape = tuple(length if a == axis else n for a, n in enumerate(nodes[0].shape))
    strides = c_strides(shape)
    pitch = prod(shape[axis + 1 :])
    parts, at = [], 0
    for node in nodes:
        parts.append((Place(at * pitch, strides, node.shape).normalized, node))
        at += node.shape[axis]
    return Value(builder.assemble(shape, dtype, parts), builder)


@_rule("stack")
def _stack(tensors: list[Value], axis: int = 0) -> Value:
    axis %= len(tensors[0].shape) + 1
    return _concatenate([x.reshape((*x.shape[:axis], 1, *x.shape[axis:])) for x in tensors], axis)


@_rule("constant_pad")
def _constant_pad(x: Value, widths: Any, values: Any) -> Value:
    if any(values) or min(widths, default=0) < 0:
        raise CannotLower("padding with other numbers than 0")
    pairs = list(zip(widths[::2], widths[1::2], strict=True))
    shape = tuple(low + n + high for n, (low, high) in zip(x.shape, pairs, strict=True))
    strides = c_strides(shape)
    offset = sum(low * s for (low, _), s in zip(pairs, strides, strict=True))
    place = Place(offset, strides, x.shape).normalized
    return x.like(x.builder.assemble(shape, x.dtype, [(place, x.node)]))


def _triangle(x: Value, k: int) -> Value:
    """A mask of the elements on the diagonal `k` and below it."""
    columns = x.shape[-1]
    rows = x.shape[-2] if len(x.shape) > 1 else columns  # a vector is broadcast to equal rows
    return x.like(x.builder.const(np.tri(rows, columns, k, dtype=bool)))


@_rule("view_as_complex")
def _view_as_complex(x: Value) -> Value:
    numbers = _numbers(x.shape)
    real, imag = (move_elements(x, numbers[..., part]).node for part in (0, 1))
    return x.like(x.builder.elementwise("complex", real, imag))


# --- products -------------------------------------------------------------------------------------


def _product(a: Value, b: Value) -> Value:
    """``a @ b`` of arrays with at least two axes."""
    dtype = np.result_type(a.dtype, b.dtype)
    if dtype.kind == "b":
        raise CannotLower("a product of bools")
    node = a.builder.matmul(a.builder.cast(a.node, dtype), a.builder.cast(b.node, dtype))
    return a.like(node)


@_rule("matmul")
def _matmul(a: Value, b: Value) -> Value:
    if not a.shape or not b.shape or a.shape[-1] != b.shape[-2 if len(b.shape) > 1 else 0]:
        raise CannotLower("shapes that do not match")
    left = a if len(a.shape) > 1 else a.reshape((1, *a.shape))
    right = b if len(b.shape) > 1 else b.reshape((*b.shape, 1))
    if len(right.shape) == 2 and len(left.shape) > 2:  # one large product
        rows = prod(left.shape[:-1])
        found = _product(left.reshape((rows, left.shape[-1])), right)
        found = found.reshape((*left.shape[:-1], right.shape[-1]))
    else:
        found = _product(left, right)
    shape = list(found.shape)
    if len(b.shape) == 1:
        del shape[-1]
    if len(a.shape) == 1:
        del shape[-2 if len(b.shape) > 1 else -1]
    return found.reshape(tuple(shape))


@_rule("dot")
def _dot(a: Value, b: Value) -> Value:
    if not isinstance(a, Value) or not isinstance(b, Value) or not a.shape or not b.shape:
        return apply("multiply", a, b)
    if len(a.shape) > 2 or len(b.shape) > 2:
        axis = max(0, len(b.shape) - 2)
        return _tensordot(a, b, [len(a.shape) - 1], [axis])
    return _matmul(a, b)


@_rule("vecdot")
def _vecdot(a: Value, b: Value, axis: int = -1) -> Value:
    ends = [x.permute(_axis_last(len(x.shape), axis)) for x in (a, b)]
    return reduce("sum", apply("conjugate", ends[0]) * ends[1], -1)


def _axis_last(ndim: int, axis: int) -> tuple[int, ...]:
    axes = list(range(ndim))
    axes.append(axes.pop(axis % ndim))
    return tuple(axes)


def _first_extreme(combiner: str, x: Value, axis: int | None, keepdims: bool) -> Value:
    """The position of the first extreme element; NaN is one, as in NumPy."""
    x = cast(x, np.uint8) if x.dtype == bool else x
    shape = (1,) * len(x.shape)
    is_one_row = axis is None or not shape
    if is_one_row:
        x = x.reshape((x.size,))
    at = (axis or 0) % len(x.shape)
    top = reduce(combiner, x, at, True)
    found = (x == top) | (apply("isnan", x) & apply("isnan", top))
    length = x.shape[at]
    numbers = where(found, _along(x.builder, length, at, len(x.shape)), length)
    first = reduce("min", numbers, at, keepdims)
    return first.reshape(shape) if keepdims and is_one_row else first


@_rule("full")
def _full(shape: Any, fill_value: Value, dtype: Any = None) -> Value:
    builder = fill_value.builder
    dtype = fill_value.dtype if dtype is None else np.dtype(dtype)
    if dtype.kind in "iu":
        if fill_value.dtype.kind == "f":
            raise CannotLower("a number that is no integer in an array of integers")
        builder.require_range(fill_value.node, dtype)
    return fill_value.like(builder.broadcast(cast(fill_value, dtype).node, tuple(shape)))


@_rule("_tensordot")
def _tensordot(a: Value, b: Value, axes_self: Any, axes_other: Any) -> Value:
    first = [int(n) % len(a.shape) for n in axes_self]
    second = [int(n) % len(b.shape) for n in axes_other]
    rest_a = [n for n in range(len(a.shape)) if n not in first]
    rest_b = [n for n in range(len(b.shape)) if n not in second]
    rows, columns = [a.shape[n] for n in rest_a], [b.shape[n] for n in rest_b]
    length = prod(a.shape[n] for n in first)
    left = a.permute((*rest_a, *first)).reshape((prod(rows), length))
    right = b.permute((*second, *rest_b)).reshape((length, prod(columns)))
    return _product(left, right).reshape((*rows, *columns))


@_rule("linear")
def _linear(x: Value, weight: Value, bias: Value | None = None) -> Value:
    axes = tuple(range(len(weight.shape) - 2))
    n = len(weight.shape)
    flipped = weight.permute((*axes, n - 1, n - 2)) if n > 1 else weight
    found = _matmul(x, flipped)
    return found if bias is None else found + bias


@_rule("trace")
def _trace(x: Value, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Value:
    line = move_elements(x, np.diagonal(_numbers(x.shape), offset, axis1, axis2))
    return total("sum", line, -1, dtype=dtype)


@_rule("linalg_cross")
def _cross(a: Value, b: Value, axis: int = -1) -> Value:
    builder = a.builder
    shape = np.broadcast_shapes(a.shape, b.shape)
    axis %= len(shape)
    if shape[axis] != 3:
        raise CannotLower("cross of vectors with two elements")
    wide = [Value(builder.broadcast(x.node, shape), builder) for x in (a, b)]
    numbers = _numbers(shape)

    def part(x: Value, n: int) -> Value:
        return move_elements(x, numbers.take([n], axis))

    x, y = wide
    pairs = ((1, 2), (2, 0), (0, 1))
    return _concatenate([part(x, i) * part(y, j) - part(x, j) * part(y, i) for i, j in pairs], axis)


# --- indexing -------------------------------------------------------------------------------------


def _bound(index: Value, length: int) -> Value:
    """An index that counts from the end where it is negative; a check that it is inside."""
    builder = index.builder
    if index.dtype == bool:
        raise CannotLower("the number of elements of a mask is known in each call only")
    if index.dtype.kind not in "iu":
        raise CannotLower("an index that is no array of integers")
    index = cast(index, INT64)
    known = index.node.value if index.node.op == "const" else builder.value_of(index.node)
    if known is not None:
        if known.size and (known.min() < -length or known.max() >= length):
            raise CannotLower("an index outside of its axis")
        fixed = np.broadcast_to(np.where(known < 0, known + length, known), index.shape)
        return index.like(builder.const(fixed, np.int64))
    builder.require(((index >= -length) & (index < length)).node)
    return where(index < 0, index + length, index)


def _along(builder: Builder, length: int, axis: int, ndim: int) -> Value:
    """0, 1, ..., length - 1 along one of several axes."""
    return Value(builder.along(builder.iota(length), axis, ndim), builder)


def _take(x: Value, positions: Value) -> Value:
    """The elements at flat positions."""
    return x.like(x.builder.take(x.node, positions.node))


def _put(kind: str, x: Value, positions: Value, values: Value) -> Value:
    """`x` with values that are set or added at flat positions; a sum has the common dtype."""
    dtype = np.result_type(x.dtype, values.dtype) if kind == "add" else x.dtype
    part = cast(values, dtype)
    part = part.reshape(part.shape[max(0, len(part.shape) - len(positions.shape)) :])
    return x.like(x.builder.put(kind, cast(x, dtype).node, positions.node, part.node))


def _positions(x: Value, indices: list[Value | None]) -> Value:
    """The flat positions of the elements at index arrays, as NumPy's advanced indexing has them."""
    ndim = len(x.shape)
    if len(indices) > ndim or x.size == 0:
        raise CannotLower("indices of an array without elements")
    given = dict(enumerate(indices))
    chosen = {axis: index for axis, index in given.items() if index is not None}
    axes = list(chosen)
    index_shape = np.broadcast_shapes(*(index.shape for index in chosen.values()))
    together = axes == list(range(axes[0], axes[-1] + 1))
    rest = [a for a in range(ndim) if a not in axes]
    before = [a for a in rest if together and a < axes[0]]
    after = rest[len(before) :]
    strides = [prod(x.shape[a + 1 :]) for a in range(ndim)]
    parts = []
    for place, axis in enumerate(rest):
        at = place if place < len(before) else place + len(index_shape)
        along = _along(x.builder, x.shape[axis], at, len(rest) + len(index_shape))
        parts.append(along * strides[axis])
    for axis, index in chosen.items():
        bounded = _bound(index, x.shape[axis])
        lead = (1,) * (len(index_shape) - len(index.shape))
        parts.append(bounded.reshape((*lead, *index.shape, *(1,) * len(after))) * strides[axis])
    return functools.reduce(operator.add, parts)


@_rule("index")
def _index(x: Value, indices: Any) -> Value:
    return _take(x, _positions(x, list(indices)))


@_rule("index_put")
def _index_put(x: Value, indices: Any, values: Any, accumulate: bool = False) -> Value:
    if not isinstance(values, Value):
        if accumulate:
            raise CannotLower("a number that is added at positions")
        values = x.like(x.builder.full(values, (), x.dtype))
    if values.number is int:
        dtype = np.result_type(x.dtype, values.dtype) if accumulate else x.dtype
        x.builder.require_range(values.node, dtype)
    given = [(axis, index) for axis, index in enumerate(indices) if index is not None]
    if len(given) == 1 and given[0][1].dtype == bool:
        return _put_under_mask(x, *given[0], values, accumulate)
    return _put("add" if accumulate else "set", x, _positions(x, list(indices)), values)


def _put_under_mask(x: Value, axis: int, mask: Value, values: Value, accumulate: bool) -> Value:
    """``x[mask] = values`` with the same values at each element of the mask: a ``where``."""
    before, end = x.shape[:axis], axis + len(mask.shape)
    after = x.shape[end:]
    shape = (1,) * (len(before) + 1 + len(after) - len(values.shape)) + values.shape
    if mask.shape != x.shape[axis:end] or len(shape) != len(before) + 1 + len(after):
        raise CannotLower("a mask of another shape")
    if shape[axis] != 1:
        raise CannotLower("a value for each element of a mask")
    shape = (*shape[:axis], *(1,) * len(mask.shape), *shape[axis + 1 :])
    if any(n not in (1, m) for n, m in zip(shape, x.shape, strict=True)):
        raise CannotLower("values of another shape")
    dtype = np.result_type(x.dtype, values.dtype) if accumulate else x.dtype
    part = cast(values, dtype).reshape(shape)
    test = mask.reshape((*(1,) * len(before), *mask.shape, *(1,) * len(after)))
    base = cast(x, dtype)
    return where(test, base + part if accumulate else part, base)


def _along_axis(x: Value, index: Value, axis: int) -> Value:
    """The positions of ``take_along_axis``; the shapes agree but on the axis."""
    ndim = len(x.shape)
    axis %= max(1, ndim)
    if len(index.shape) != ndim or x.size == 0 or not ndim:
        raise CannotLower("an index of another number of axes")
    parts = []
    for a in range(ndim):
        if a != axis and index.shape[a] > x.shape[a]:
            raise CannotLower("an index that is broadcast")
        is_index = a == axis
        own = _bound(index, x.shape[a]) if is_index else _along(x.builder, index.shape[a], a, ndim)
        parts.append(own * prod(x.shape[a + 1 :]))
    found = functools.reduce(operator.add, parts)
    return found.like(found.builder.broadcast(found.node, index.shape))


@_rule("take_along_axis")
def _take_along_axis(x: Value, indices: Value, axis: int | None = -1) -> Value:
    if axis is None:
        x, axis = x.reshape((x.size,)), 0
    _require_equal_axes(x, indices, axis)
    return _take(x, _along_axis(x, indices, axis))


def _require_equal_axes(x: Value, indices: Value, axis: int) -> None:
    """Refuses an index whose other axes are broadcast."""
    axes = [a for a in range(len(x.shape)) if a != axis % len(x.shape)]
    if len(indices.shape) != len(x.shape) or any(x.shape[a] != indices.shape[a] for a in axes):
        raise CannotLower("an index that is broadcast")


@_rule("put_along_axis")
def _put_along_axis(
    x: Value, indices: Value, values: Any, axis: int | None = -1, accumulate: bool = False
) -> Value:
    if axis is None or not isinstance(values, Value):
        raise CannotLower("an axis of all elements, or a number")
    if indices.node.size > max(_MOST_RUNNING, x.node.size // 8):
        # a kernel is as fast, and frees its operands: 40 instead of 48 MB for gradients of sorts
        raise CannotLower("many positions")
    _require_equal_axes(x, indices, axis)
    return _put("add" if accumulate else "set", x, _along_axis(x, indices, axis), values)


@_rule("gather")
def _gather(x: Value, axis: int, index: Value) -> Value:
    return _take(x, _along_axis(x, index, axis))


@_rule("scatter_add")
def _scatter_add(x: Value, axis: int, index: Value, src: Value) -> Value:
    if src.shape != index.shape:
        raise CannotLower("a source of another shape")
    return _put("add", x, _along_axis(x, index, axis), src)


@_rule("_pick")
def _pick(x: Value, target: Value, ignore_index: int) -> Value:
    found = _classes(x.shape, target, ignore_index)
    picked = _take_along_axis(x, found.places, found.axis)
    return where(found.counts, picked.reshape(target.shape), 0)


@_rule("_place")
def _place(grad: Value, target: Value, classes: int, ignore_index: int) -> Value:
    axis = min(1, len(grad.shape))
    shape = (*grad.shape[:axis], classes, *grad.shape[axis:])
    counts, places, _ = _classes(shape, target, ignore_index)
    builder = grad.builder
    numbers = builder.along(builder.iota(classes), axis, len(shape))
    kept = where(counts, grad, 0).reshape(places.shape)
    return where(grad.like(numbers) == places, kept, 0)


class _Classes(NamedTuple):
    """A mask of the targets that count, and the targets with an axis of length 1 for classes."""

    counts: Value
    places: Value
    axis: int  # of classes


def _classes(shape: Any, target: Value, ignore: int) -> _Classes:
    axis = min(1, len(shape) - 1)
    counts = target != ignore
    numbers = where(counts, target, 0)
    builder = target.builder
    inside = apply("logical_and", numbers >= 0, numbers < shape[axis])
    builder.require(inside.node)
    wide = (*target.shape[:axis], 1, *target.shape[axis:])
    return _Classes(counts, numbers.reshape(wide), axis)


@_rule("_tie_weights")
def _tie_weights(x: Value, extreme: Value, axis: Any, keepdims: bool) -> Value:
    axes = axes_of(axis, len(x.shape))
    shape = tuple(1 if a in axes else n for a, n in enumerate(x.shape))
    top = extreme if keepdims and x.shape else extreme.reshape(shape)
    tied = (x == top) | (apply("isnan", x) & apply("isnan", top))
    weights = cast(tied, x.dtype)
    return weights / reduce("sum", weights, axis, True)


@_rule("_norm")
def _norm(
    x: Value, weight: Value | None, bias: Value | None, axis: Any, eps: float
) -> tuple[Value, Value, Value]:
    count = _real_count(x, axis)
    mean = reduce("sum", x, axis, True) / count
    centred = x - mean
    var = reduce("sum", centred * centred, axis, True) / count
    found = centred * (1 / apply("sqrt", var + eps))
    found = found if weight is None else found * weight
    return found if bias is None else found + bias, mean, var


@_rule("_rms_norm")
def _rms_norm(x: Value, weight: Value | None, axis: Any, eps: float) -> tuple[Value, Value]:
    square = reduce("sum", x * x, axis, True) / _real_count(x, axis)
    found = x * (1 / apply("sqrt", square + eps))
    return (found if weight is None else found * weight), square


def _real_count(x: Value, axis: Any) -> int:
    """The number of elements of a mean over axes."""
    if x.dtype.kind != "f":
        raise CannotLower("normalization of other numbers than real ones")
    return prod(x.shape[a] for a in axes_of(axis, len(x.shape)))


# --- running results ------------------------------------------------------------------------------


def _running(function: str, x: Value, axis: int | None, start: Any) -> Value:
    """A function of each element and the result before it, along an axis: a loop."""
    found, _ = _run(function, x, axis, start)
    return found


def _run(function: str, x: Value, axis: int | None, start: Any) -> tuple[Value, Value]:
    """The running results along an axis, and where the last element that is equal to one is."""
    x = x.reshape((prod(x.shape),)) if axis is None else x
    if not x.shape:
        raise CannotLower("running results of a number")
    axis = (axis or 0) % len(x.shape)
    order = [axis, *(a for a in range(len(x.shape)) if a != axis)]
    rows = x.permute(tuple(order))
    if not 0 < x.node.size <= _MOST_RUNNING or prod(rows.shape[1:]) > _MOST_ROW:
        raise CannotLower("running results of many elements")
    builder, shape = x.builder, rows.shape[1:]
    firsts = [builder.full(start, shape, x.dtype), builder.full(0, shape, INT64)]
    maker = LoopMaker()
    before, place = (maker.body.input(first.shape, first.dtype) for first in firsts)
    row = Place(0, c_strides(shape), shape, prod(shape))
    part = maker.inner.view(maker.invariant(rows.node), row, maker.index)
    value = maker.inner.elementwise(function, before, part)
    is_equal = maker.inner.elementwise("equal", part, value)
    if x.dtype.kind in "fc":
        is_nan = maker.inner.elementwise("isnan", part)
        is_equal = maker.inner.elementwise("logical_or", is_equal, is_nan)
    place = maker.inner.elementwise("where", is_equal, maker.index, place)
    outputs = [value, place, value, place]
    made = maker.add_to(builder.graph, rows.shape[0], firsts, outputs)
    back = tuple(int(a) for a in np.argsort(order))
    results = (builder.pick(made, n, rows.shape, outputs[n].dtype) for n in (2, 3))
    values, places = (x.like(result).permute(back) for result in results)
    return values, places


@_rule("cumsum")
def _cumsum(x: Value, axis: int | None = None, dtype: Any = None) -> Value:
    x = cast(x, sum_dtype(x.dtype) if dtype is None else dtype)
    zero = {"f": -0.0, "c": complex(-0.0, -0.0)}.get(x.dtype.kind, 0)  # -0.0 + -0.0 is -0.0
    return _running("add", x, axis, zero)


@_rule("cumprod")
def _cumprod(x: Value, axis: int | None = None, dtype: Any = None) -> Value:
    x = cast(x, sum_dtype(x.dtype) if dtype is None else dtype)
    if x.dtype.kind == "c":
        raise CannotLower("a product of complex numbers, which 1 times the first would change")
    return _running("multiply", x, axis, 1)


def _extreme_rule(function: str, sign: int) -> _Rule:
    def rule(x: Value, axis: int) -> tuple[Value, Value]:
        if x.dtype.kind not in "iuf":
            raise CannotLower("an order of other numbers than real ones")
        limits = np.iinfo(x.dtype) if x.dtype.kind in "iu" else None
        ends = (-np.inf, np.inf) if limits is None else (limits.min, limits.max)
        return _run(function, x, axis, ends[sign > 0])

    return rule


RULES["cummax"] = _extreme_rule("maximum", -1)
RULES["cummin"] = _extreme_rule("minimum", 1)


@_rule("linalg_vector_norm")
def _vector_norm(x: Value, axis: Any = None, keepdims: bool = False, ord: float = 2) -> Value:
    size = abs(x)
    if ord == 2 and x.dtype.kind == "f":
        return apply("sqrt", reduce("sum", size * size, axis, keepdims))
    if ord == 1 and x.dtype.kind in "fc":
        return reduce("sum", size, axis, keepdims)
    if ord == float("inf") and x.dtype.kind in "fc":
        return reduce("max", size, axis, keepdims)
    raise CannotLower("another norm")


HELPERS: dict[str, Any] = {"first_extreme": _first_extreme, "triangle": _triangle}
"""Functions for expressions of the tables that are no operators."""
