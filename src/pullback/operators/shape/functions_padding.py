"""``pad``: more elements around a tensor, in the modes of NumPy.

Every mode works axis after axis. Where what is put around are elements of the tensor, one `take`
along the axis does it; else the new parts are computed and joined.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pullback._generated import functions_indexing as indexing
from pullback._generated import functions_pointwise as pointwise
from pullback._generated import functions_reduction as reduction
from pullback._generated import functions_shape as shape
from pullback._generated import functions_sorting as sorting
from pullback.errors import DerivativeMissingError
from pullback.tensor.tensor import Tensor, as_operand, has_values, wrap

__all__ = ["Pair", "pad"]

_OPTIONS: dict[str, dict[str, Any]] = {
    "constant": {"constant_values": 0},
    "edge": {},
    "empty": {},
    "linear_ramp": {"end_values": 0},
    "maximum": {"stat_length": None},
    "mean": {"stat_length": None},
    "median": {"stat_length": None},
    "minimum": {"stat_length": None},
    "reflect": {"reflect_type": "even"},
    "symmetric": {"reflect_type": "even"},
    "wrap": {},
}
_STATISTICS: dict[str, Callable[..., Any]] = {
    "maximum": reduction.max,
    "mean": reduction.mean,
    "median": sorting.median,
    "minimum": reduction.min,
}

Pair = tuple[Any, Any]


def pad(x: Any, pad_width: Any, mode: str = "constant", **options: Any) -> Tensor:
    """Puts elements around a tensor; `pad_width` says how many before and after each axis.

    It is a number, a pair, a pair for each axis, or a dict from axis to these. The modes are those
    of NumPy, with its options. Gradients pass to `constant_values` and `end_values` too.

    >>> import pullback as pb
    >>> pb.pad(pb.asarray([1.0, 2.0, 3.0]), (2, 1), mode="reflect").tolist()
    [3.0, 2.0, 1.0, 2.0, 3.0, 2.0]
    """
    tensor: Any = as_operand(x)
    if mode not in _OPTIONS:
        raise DerivativeMissingError(
            f"pad: mode must be one of {', '.join(_OPTIONS)}, not {mode!r}; for another one, make "
            f"the parts and join them with concatenate()"
        )
    for name in options.keys() - _OPTIONS[mode].keys():
        raise ValueError(f"pad: mode {mode!r} takes no option {name!r}")
    widths = _widths(pad_width, tensor.ndim)
    if tensor.dtype.kind not in "fc" and has_values(tensor):
        return wrap(np.pad(tensor._array, widths, mode, **options))  # type: ignore[call-overload]
    options = {**_OPTIONS[mode], **options}
    constants = options.get("constant_values", 0)
    if mode in ("constant", "empty") and not _holds_tensor(constants):
        values = _pairs(constants, tensor.ndim)
        flat = [int(n) for pair in widths for n in pair]
        return shape._constant_pad(tensor, flat, [value for pair in values for value in pair])
    for axis, pair in enumerate(widths):
        if pair != (0, 0):
            padded = _pad_axis(tensor, axis, pair, mode, options)
            same = padded.dtype == tensor.dtype
            tensor = padded if same else pointwise._astype(padded, tensor.dtype)
    return tensor if any(map(any, widths)) else pointwise.clone(tensor)


def _widths(pad_width: Any, ndim: int) -> list[tuple[int, int]]:
    if isinstance(pad_width, dict):
        table: list[Any] = [(0, 0)] * ndim
        for axis, pair in pad_width.items():
            table[axis] = (pair, pair) if isinstance(pair, int) else tuple(pair)
        pad_width = table
    pairs = [(int(before), int(after)) for before, after in _pairs(pad_width, ndim)]
    if any(n < 0 for pair in pairs for n in pair):
        raise ValueError(f"pad: widths may not be negative, they are {pairs}")
    return pairs


def _pairs(value: Any, ndim: int) -> list[Pair]:
    """A pair for each axis, from one value, one pair, or a pair for each."""
    if _holds_tensor(value):
        spread: Any = shape.broadcast_to(_stacked(value), (ndim, 2))
        return [(spread[axis, 0], spread[axis, 1]) for axis in range(ndim)]
    try:
        pairs = np.broadcast_to(np.asarray(value), (ndim, 2))
    except ValueError:
        raise ValueError(
            f"pad: {value!r} is neither a value, nor a pair, nor a pair for each of {ndim} axes"
        ) from None
    return [tuple(pair) for pair in pairs.tolist()]


def _holds_tensor(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_holds_tensor, value))
    return isinstance(value, Tensor)


def _stacked(value: Any) -> Tensor:
    """Nested lists of numbers and tensors as one tensor."""
    if isinstance(value, list | tuple):
        return shape.stack([_stacked(item) for item in value])
    return value if isinstance(value, Tensor) else wrap(np.asarray(value))


def _pad_axis(
    tensor: Any, axis: int, width: tuple[int, int], mode: str, options: dict[str, Any]
) -> Any:
    if mode == "constant":
        values = _pairs(options["constant_values"], tensor.ndim)[axis]
        return _joined(tensor, axis, width, lambda side, n: _same(tensor, axis, n, values[side]))
    if mode == "linear_ramp":
        ends = _pairs(options["end_values"], tensor.ndim)[axis]
        return _joined(
            tensor, axis, width, lambda side, n: _ramp(tensor, axis, side, n, ends[side])
        )
    if mode in _STATISTICS:
        lengths = _pairs(options["stat_length"], tensor.ndim)[axis]
        return _joined(
            tensor, axis, width, lambda side, n: _flat(tensor, axis, side, n, mode, lengths[side])
        )
    length = tensor.shape[axis]
    if length == 0:
        raise ValueError(f"pad: mode {mode!r} needs elements, and axis {axis} has none")
    if options.get("reflect_type") == "odd" and length > 1:
        return _odd(tensor, axis, width, skip=mode == "reflect")
    places = np.pad(np.arange(length), width, mode)  # type: ignore[call-overload]
    return indexing.take(tensor, places, axis)


def _joined(tensor: Any, axis: int, width: tuple[int, int], part: Callable[[int, int], Any]) -> Any:
    """The tensor between the parts before and after it."""
    before = [part(0, width[0])] if width[0] else []
    after = [part(1, width[1])] if width[1] else []
    return shape.concatenate([*before, tensor, *after], axis)


def _slices(tensor: Any, axis: int, start: int, stop: int) -> Any:
    return tensor[(slice(None),) * axis + (slice(start, stop),)]


def _edge(tensor: Any, axis: int, side: int) -> Any:
    """The first or last slice of an axis."""
    last = tensor.shape[axis] - 1
    return _slices(tensor, axis, 0, 1) if side == 0 else _slices(tensor, axis, last, last + 1)


def _same(tensor: Any, axis: int, n: int, value: Any) -> Any:
    """One value everywhere."""
    lengths = (*tensor.shape[:axis], n, *tensor.shape[axis + 1 :])
    return shape.broadcast_to(pointwise._astype(value, tensor.dtype), lengths)


def _ramp(tensor: Any, axis: int, side: int, n: int, end: Any) -> Any:
    """Even steps from the edge to a number, which is reached at the far end."""
    if tensor.dtype.kind not in "fc":
        return _integer_ramp(_edge(tensor, axis, side), axis, side, n, end)
    steps = np.arange(n) / n if side == 0 else 1 - np.arange(1, n + 1) / n
    weight = steps.astype(tensor.dtype).reshape((-1,) + (1,) * (tensor.ndim - axis - 1))
    return wrap(weight) * _edge(tensor, axis, side) + wrap(1 - weight) * end


def _integer_ramp(edge: Any, axis: int, side: int, n: int, end: Any) -> Any:
    """A ramp of integers: as ``np.linspace(end, edge, n, endpoint=False, dtype=edge.dtype)``."""
    counts = np.arange(n)[:: 1 if side == 0 else -1].reshape((-1,) + (1,) * (edge.ndim - axis - 1))
    distance = pointwise.subtract(pointwise.multiply(edge, 1.0), end)
    step = pointwise.divide(distance, n)
    is_divided = reduction.any(pointwise.equal(step, 0))  # as linspace keeps subnormal steps
    found = pointwise._where(is_divided, wrap(counts / n) * distance, wrap(counts) * step) + end
    if edge.dtype.kind in "iu":  # a ramp of truth values is true where it is not 0
        found = pointwise.floor(found)
    return pointwise._astype(found, edge.dtype)


def _flat(tensor: Any, axis: int, side: int, n: int, mode: str, length: Any) -> Any:
    """A statistic of the elements next to an edge, repeated."""
    whole = tensor.shape[axis]
    near = whole if length is None else min(int(length), whole)
    start = 0 if side == 0 else whole - near
    region = _slices(tensor, axis, start, start + near)
    found = _STATISTICS[mode](region, axis, True)
    if mode in ("mean", "median") and tensor.dtype.kind in "iu":
        found = pointwise.rint(found)
    return _same(tensor, axis, n, found)


def _odd(tensor: Any, axis: int, width: tuple[int, int], *, skip: bool) -> Any:
    """Reflections through the edge itself, again and again until they reach far enough."""
    before, after = width
    while before or after:
        length = tensor.shape[axis]
        reach = length - int(skip)
        left, right = min(before, reach), min(after, reach)

        def mirrored(side: int, n: int, whole: Any = tensor, end: int = reach) -> Any:
            start = int(skip) if side == 0 else end - n
            part = _slices(whole, axis, start, start + n)
            return 2 * _edge(whole, axis, side) - shape.flip(part, axis)

        tensor = _joined(tensor, axis, (left, right), mirrored)
        before, after = before - left, after - right
    return tensor
