"""Rules of operators that move elements about, or look at them differently.

Where an operator returns a view, so does its rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from math import prod
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from pullback.kernels.batch_axes import (
    Array,
    Rule,
    flat,
    full,
    shifted,
    shifted_all,
)
from pullback.operators.pointwise import kernels as pointwise
from pullback.operators.shape import kernels as plain

__all__ = ["RULES"]


def _wanted(shape: Any, size: int) -> tuple[int, ...]:
    """Replaces the length -1 of a shape, also for an empty batch."""
    given = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
    if given.count(-1) != 1:
        return given
    known = prod(n for n in given if n != -1)
    if not known or size % known:
        return given  # NumPy says what is wrong
    return tuple(size // known if n == -1 else n for n in given)


def _reshape(k: int, x: Array, shape: Any, order: str = "C", *, copy: bool | None = None) -> Array:
    if type(shape) is tuple and order == "C" and copy is None and x.size:
        with suppress(ValueError):
            return x.reshape(x.shape[:k] + shape)
    wanted = _wanted(shape, prod(x.shape[k:]))
    if prod(wanted) != prod(x.shape[k:]):
        raise ValueError(f"reshape: a tensor of shape {x.shape[k:]} has no shape {tuple(wanted)}")
    batch = x.shape[:k]
    if order == "C":
        return plain.reshape(x, batch + wanted, copy=copy)
    # Fortran order is C order with the axes turned round.
    turned = _permute(k, plain.reshape(_permute(k, x), batch + wanted[::-1]))
    return (
        plain.reshape(turned, turned.shape, copy=copy)
        if order == "F"
        else plain.reshape(x, batch + wanted, order)
    )


def _permute(k: int, x: Array, axes: Sequence[int] | None = None) -> Array:
    ndim = x.ndim - k
    order = range(ndim)[::-1] if axes is None else [normalize_axis_index(a, ndim) for a in axes]
    if len(order) != ndim:
        raise ValueError(f"permute_dims: {axes} does not name the {ndim} axes of {x.shape[k:]}")
    return np.transpose(x, [*range(k), *(k + a for a in order)])


def _matrix_transpose(k: int, x: Array) -> Array:
    if x.ndim - k < 2:
        return plain.matrix_transpose(x.reshape(x.shape[k:]) if not k else x[(0,) * k])
    return x.swapaxes(-1, -2)


def _swapaxes(k: int, x: Array, axis1: int, axis2: int) -> Array:
    ndim = x.ndim - k
    return np.swapaxes(x, shifted(k, ndim, axis1), shifted(k, ndim, axis2))


def _moveaxis(k: int, x: Array, source: Any, destination: Any) -> Array:
    ndim = x.ndim - k
    return np.moveaxis(x, shifted_all(k, ndim, source), shifted_all(k, ndim, destination))


def _expand_dims(k: int, x: Array, axis: Any = 0) -> Array:
    new = len(axis) if isinstance(axis, list | tuple) else 1
    return np.expand_dims(x, shifted_all(k, x.ndim - k + new, axis))


def _squeeze(k: int, x: Array, axis: Any = None) -> Array:
    if axis is None:
        axis = [a for a, n in enumerate(x.shape[k:]) if n == 1]
    elif x.ndim == k:  # of a number, NumPy takes axes that a vector has
        normalize_axis_tuple(axis, 1)
        axis = []
    return plain.squeeze(x, list(shifted_all(k, x.ndim - k, axis)))


def _broadcast_to(k: int, x: Array, shape: Any) -> Array:
    wanted = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
    missing = len(wanted) - (x.ndim - k)
    if missing < 0:
        raise ValueError(f"broadcast_to: shape {x.shape[k:]} does not broadcast to {wanted}")
    return plain.broadcast_to(
        x.reshape(x.shape[:k] + (1,) * missing + x.shape[k:]), x.shape[:k] + wanted
    )


def _diagonal(k: int, x: Array, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    ndim = x.ndim - k
    return plain.diagonal(x, offset, shifted(k, ndim, axis1), shifted(k, ndim, axis2))


def _diagonal_backward(
    k: int, grad: Array, shape: Sequence[int], offset: int = 0, axis1: int = 0, axis2: int = 1
) -> Array:
    axes = (shifted(k, len(shape), axis) for axis in (axis1, axis2))
    return plain.diagonal_backward(grad, (*grad.shape[:k], *shape), offset, *axes)


def _windows(k: int, x: Array, window_shape: Any, axis: Any = None) -> Array:
    if axis is None and isinstance(window_shape, int):
        window_shape = [window_shape]
    return plain.sliding_window_view(
        x, _listed(window_shape), list(shifted_all(k, x.ndim - k, axis))
    )


def _window_backward(
    k: int, grad: Array, shape: Sequence[int], window_shape: Any, axis: Any = None
) -> Array:
    axes = list(shifted_all(k, len(shape), axis))
    return plain.window_backward(grad, (*grad.shape[:k], *shape), _listed(window_shape), axes)


def _listed(value: Any) -> list[int]:
    return list(value) if isinstance(value, list | tuple) else [int(value)]


def _as_strided(
    k: int, x: Array, shape: Sequence[int], strides: Sequence[int], storage_offset: int = 0
) -> Array:
    if not x.flags.c_contiguous:
        raise ValueError(
            "as_strided: the mapped tensor must be C-contiguous; call ascontiguousarray() first"
        )
    if x.size:
        plain.as_strided(x[(0,) * k], shape, strides, storage_offset)  # checks the reach
    rows = flat(k, x)[..., storage_offset:]
    steps = (*rows.strides[:k], *(step * x.itemsize for step in strides))
    return np.lib.stride_tricks.as_strided(
        rows, (*x.shape[:k], *shape), steps, writeable=x.flags.writeable
    )


def _concatenate(k: int, tensors: Sequence[Array], axis: int | None = 0) -> Array:
    if axis is None:
        tensors, axis = [flat(k, x) for x in tensors], 0
    arrays = full(k, *tensors)
    return np.concatenate(arrays, shifted(k, arrays[0].ndim - k, axis))


def _stack(k: int, tensors: Sequence[Array], axis: int = 0) -> Array:
    shapes = {x.shape if type(x) is np.ndarray else None for x in tensors}
    if len(shapes) > 1 or None in shapes:
        tensors = full(k, *tensors)
        shapes = {x.shape for x in tensors}
    place = shifted(k, tensors[0].ndim - k + 1, axis)
    if len(shapes) > 1:
        return np.stack(tensors, place)  # says what is wrong
    new = (slice(None),) * place + (None,)
    return np.concatenate([x[new] for x in tensors], place)  # two thirds of the time of np.stack


def _unbind(k: int, x: Array, axis: int = 0) -> list[Array]:
    return plain.unbind(x, shifted(k, x.ndim - k, axis))


def _split(k: int, x: Array, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    return plain.split(x, indices_or_sections, shifted(k, x.ndim - k, axis))


def _flip(k: int, x: Array, axis: Any = None) -> Array:
    return plain.flip(x, list(shifted_all(k, x.ndim - k, axis)))


def _roll(k: int, x: Array, shift: Any, axis: Any = None) -> Array:
    if axis is None:
        return np.roll(flat(k, x), shift, -1).reshape(x.shape)
    return np.roll(x, shift, shifted_all(k, x.ndim - k, axis))


def _tile(k: int, x: Array, reps: Any) -> Array:
    times = _listed(reps)
    missing = max(0, len(times) - (x.ndim - k))
    x = x.reshape(x.shape[:k] + (1,) * missing + x.shape[k:])
    return np.tile(x, [1] * (x.ndim - len(times)) + times)


def _repeat(k: int, x: Array, repeats: Any, axis: int | None = None) -> Array:
    if isinstance(repeats, np.ndarray):  # unbatched, with or without batch dimensions
        repeats = repeats.reshape(-1)
    if axis is None or x.ndim == k:  # of a number, NumPy takes axes that a vector has
        x, axis = flat(k, x), 0 if axis is None else axis
    return np.repeat(x, repeats, shifted(k, x.ndim - k, axis))


def _triangle(function: Callable[..., Array]) -> Rule:
    def rule(k: int, x: Array, offset: int) -> Array:
        if x.ndim - k == 1:  # a vector stands for a matrix with equal rows
            x = np.broadcast_to(x[..., np.newaxis, :], (*x.shape, x.shape[-1]))
        return function(x, offset)

    return rule


def _constant_pad(k: int, x: Array, widths: Sequence[int], values: Sequence[Any]) -> Array:
    return plain.constant_pad(x, [0] * (2 * k) + list(widths), [0] * (2 * k) + list(values))


def _view_as_complex(k: int, x: Array) -> Array:
    if x.ndim == k:
        return pointwise.view_as_complex(np.empty((), x.dtype))  # says what is wrong
    return pointwise.view_as_complex(x)


RULES: dict[str, Rule] = {
    "reshape": _reshape,
    "permute_dims": _permute,
    "matrix_transpose": _matrix_transpose,
    "swapaxes": _swapaxes,
    "moveaxis": _moveaxis,
    "expand_dims": _expand_dims,
    "squeeze": _squeeze,
    "broadcast_to": _broadcast_to,
    "diagonal": _diagonal,
    "diagonal_backward": _diagonal_backward,
    "sliding_window_view": _windows,
    "window_backward": _window_backward,
    "as_strided": _as_strided,
    "concatenate": _concatenate,
    "stack": _stack,
    "unbind": _unbind,
    "split": _split,
    "flip": _flip,
    "roll": _roll,
    "tile": _tile,
    "repeat": _repeat,
    "tril": _triangle(plain.tril),
    "triu": _triangle(plain.triu),
    "constant_pad": _constant_pad,
    "view_as_complex": _view_as_complex,
}
