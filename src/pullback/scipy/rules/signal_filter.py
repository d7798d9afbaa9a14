"""Rules of the recursive filters of ``scipy.signal``, by coefficients, signal and states."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.signal as theirs
from numpy.typing import NDArray

from pullback.autograd.namespaces import tensors as xp
from pullback.func.bilinear import Bilinear, sum_of_products
from pullback.func.primitive import Known, Primitive, apply_linear, conjugate
from pullback.interop.arguments import as_tensor, carries_gradient
from pullback.scipy.registry import rule
from pullback.scipy.rules.linalg_tools import pad_zeros
from pullback.scipy.rules.ndimage_filters import correlate_axis
from pullback.tensor.payload import Payload
from pullback.tensor.tensor import Tensor

__all__: list[str] = []

_Array = NDArray[Any]
_ONE = np.ones(1)

# --- the causal filter without poles --------------------------------------------------------------


def _fir(x: _Array, b: _Array, count: int) -> Any:
    del count
    if x.ndim == 1 and x.size:  # half the time
        return np.convolve(x, b)[: x.shape[-1]]
    return theirs.upfirdn(b, x)[..., : x.shape[-1]]


def _fir_to_x(b: _Array, y: _Array, count: int) -> Any:
    return _fir(y[..., ::-1], b, count)[..., ::-1]


def _fir_to_b(x: _Array, y: _Array, count: int) -> Any:
    """The product of y with x that is shifted by each of the coefficients' delays."""
    x, y = (np.broadcast_to(v, np.broadcast_shapes(x.shape, y.shape)) for v in (x, y))
    n = x.shape[-1]
    found = np.zeros(count, np.result_type(x, y))
    for delay in range(min(count, n)):
        found[delay] = sum_of_products(x[..., : n - delay], y[..., delay:])
    return found


_FIR = Bilinear("scipy.signal.lfilter", _fir, _fir_to_x, _fir_to_b)

# --- the recursive filter -------------------------------------------------------------------------
#
# y solves A y = B x + z, where A and B are the lower triangular Toeplitz matrices of a and b, and z
# has the initial states in its first elements. Such matrices commute.


def _filter_kernel(b: _Array, a: _Array, x: _Array, zi: _Array) -> Any:
    if not zi.shape[-1]:
        return theirs.lfilter(b, a, x)
    return theirs.lfilter(b, a, x, zi=zi)[0]


def _filter_jvp(known: Known, *tangents: Tensor | None) -> Any:
    b, a, x, _ = known.inputs
    (y,) = known.outputs
    by_b, by_a, by_x, by_zi = tangents
    terms = []
    if by_b is not None:
        terms.append(_FIR(x, by_b, count=len(b)))
    if by_a is not None:
        terms.append(-_FIR(y, by_a, count=len(a)))
    if by_zi is not None:
        terms.append(_states_as_signal(by_zi, x.shape[-1]))
    total: Any = sum(terms[1:], terms[0]) if terms else None
    found = None if total is None else _recursive(_ONE, a, total)
    if by_x is not None:
        passed = _recursive(b, a, by_x)
        found = passed if found is None else found + passed
    return found


def _filter_vjp(known: Known, grad: Tensor) -> Any:
    b, a, x, zi = known.inputs
    (y,) = known.outputs
    needs_b, needs_a, needs_x, needs_zi = known.needs
    by_b = by_a = by_x = by_zi = None
    backward = _flip(grad)
    if needs_b or needs_a or needs_zi:
        solved = _flip(_recursive(_ONE, conjugate(a), backward))
        if needs_b:
            by_b = _FIR.to_right(conjugate(x), solved, count=len(b))
        if needs_a:
            by_a = -_FIR.to_right(conjugate(y), solved, count=len(a))
        if needs_zi:
            count = min(zi.shape[-1], x.shape[-1])
            by_zi = pad_zeros(solved[..., :count], 0, zi.shape[-1] - count, -1)
        if needs_x:
            by_x = _FIR.to_left(conjugate(b), solved, count=len(b))
    elif needs_x:
        by_x = _flip(_recursive(conjugate(b), conjugate(a), backward))
    return by_b, by_a, by_x, by_zi


_FILTER = Primitive("scipy.signal.lfilter", _filter_kernel, _filter_jvp, _filter_vjp)


def _recursive(b: Any, a: Any, x: Any) -> Any:
    """The filter from rest, along the last axis; `a` begins with 1."""
    dtype = np.result_type(as_tensor(a).dtype, as_tensor(x).dtype)
    b = np.ones(1, dtype) if b is _ONE else b
    return _FILTER(b, a, x, np.zeros(0, x.dtype))


def _flip(x: Any) -> Any:
    return xp.flip(x, [-1])


def _states_as_signal(zi: Any, length: int) -> Any:
    count = min(zi.shape[-1], length)
    return pad_zeros(zi[..., :count], 0, length - count, -1)


def _final_states(b: Any, a: Any, x: Any, y: Any, zi: Any) -> Any:
    """The rest of B x + z - A y behind the end, from the last samples."""
    count, length = zi.shape[-1], x.shape[-1]
    tail = min(count, length)
    delay = np.arange(count)[:, None] + tail - np.arange(tail)[None, :]
    found = 0.0
    for weights, signal, sign in ((b, x, 1.0), (a, y, -1.0)):
        longer = pad_zeros(weights, 0, count + tail + 1 - len(weights), -1)
        matrix = longer[delay]
        last = signal[..., length - tail :]
        found = found + sign * xp.sum(xp.expand_dims(last, -2) * matrix, -1)
    if length < count:
        found = found + pad_zeros(zi[..., length:], 0, length, -1)
    return found


def _filter_axis(b: Any, a: Any, x: Any, zi: Any) -> tuple[Any, Any]:
    """The filter along the last axis, and its final states if initial ones are given."""
    is_batched = isinstance(a._array, Payload)
    if not is_batched and a._array[0] == 0:
        raise ValueError("filter coefficient a[0] == 0 not supported yet")
    if is_batched or carries_gradient(a) or a._array[0] != 1:
        b, a = b / a[0], a / a[0]
    if zi is None:
        return _recursive(b, a, x), None
    count = max(len(a), len(b)) - 1
    shape = [*x.shape[:-1], count]
    if zi.ndim != x.ndim or any(n not in (m, 1) for n, m in zip(zi.shape, shape, strict=True)):
        raise ValueError(
            f"Unexpected shape for parameter zi: expected {tuple(shape)}, found {tuple(zi.shape)}."
        )
    if zi.shape[-1] != count:
        raise ValueError(f"Unexpected shape for parameter zi: {tuple(zi.shape)}.")
    zi = xp.broadcast_to(zi, shape)
    y = _FILTER(b, a, x, zi)
    return y, _final_states(b, a, x, y, zi)


@rule("scipy.signal.lfilter", tensors="b a x zi")
def _lfilter(b: Any, a: Any, x: Any, axis: int, zi: Any) -> Any:
    b, a, x = (as_tensor(value) for value in (b, a, x))
    b, a = (xp.reshape(v, [1]) if v.ndim == 0 else v for v in (b, a))
    for name, value in (("b", b), ("a", a)):
        if value.ndim != 1 or not len(value):
            raise ValueError(f"Parameter {name} is not a non-empty 1d array: {value.shape}")
    if x.ndim == 0:
        raise ValueError("x must be at least 1-D")
    zi = None if zi is None else as_tensor(zi)
    dtype = np.result_type(*(v.dtype for v in (b, a, x, zi) if v is not None))
    b, a, x = (v if v.dtype == dtype else xp.astype(v, dtype) for v in (b, a, x))
    if zi is not None:
        zi = xp.moveaxis(zi if zi.dtype == dtype else xp.astype(zi, dtype), axis, -1)
    y, states = _filter_axis(b, a, xp.moveaxis(x, axis, -1), zi)
    y = xp.moveaxis(y, -1, axis)
    return y if states is None else (y, xp.moveaxis(states, -1, axis))


@rule("scipy.signal.sosfilt", tensors="sos x zi")
def _sosfilt(sos: Any, x: Any, axis: int, zi: Any) -> Any:
    sos, x = as_tensor(sos), as_tensor(x)
    if x.ndim == 0:
        raise ValueError("x must be at least 1-D")
    _require_sections(sos)
    if zi is not None:
        zi = as_tensor(zi)
        shape = list(x.shape)
        shape[axis] = 2
        if list(zi.shape) != [len(sos), *shape]:
            raise ValueError(f"Invalid zi shape: {tuple(zi.shape)}, not {(len(sos), *shape)}.")
    if zi is None and not carries_gradient(sos) and not isinstance(sos._array, Payload):
        sections = np.asarray(sos._array)  # one pass for all sections
        return apply_linear(
            x,
            lambda v: theirs.sosfilt(sections, v, axis),
            lambda v: np.flip(theirs.sosfilt(sections, np.flip(v, axis), axis), axis),
        )
    states = []
    for number in range(len(sos)):
        section = sos[number]
        start = None if zi is None else zi[number]
        found = _lfilter(section[:3], section[3:], x, axis, start)
        x = found if start is None else found[0]
        if start is not None:
            states.append(found[1])
    return x if zi is None else (x, xp.stack(states))


def _require_sections(sos: Tensor) -> None:
    if sos.ndim != 2:
        raise ValueError("sos array must be 2D")
    if sos.shape[1] != 6:
        raise ValueError("sos array must be shape (n_sections, 6)")
    if not isinstance(sos._array, Payload) and not (np.asarray(sos._array)[:, 3] == 1).all():
        raise ValueError("sos[:, 3] should be all ones")


# --- local polynomials ----------------------------------------------------------------------------


@rule("scipy.signal.savgol_filter", tensors="x cval")
def _savgol_filter(
    x: Any,
    window_length: int,
    polyorder: int,
    deriv: int,
    delta: float,
    axis: int,
    mode: str,
    cval: Any,
) -> Any:
    if mode not in ("mirror", "constant", "nearest", "interp", "wrap"):
        raise ValueError("mode must be 'mirror', 'constant', 'nearest' 'wrap' or 'interp'.")
    x = as_tensor(x)
    if x.dtype not in (np.float32, np.float64):
        x = xp.astype(x, np.float64)
    weights = theirs.savgol_coeffs(window_length, polyorder, deriv, delta)[::-1].copy()
    origin = 0 if window_length % 2 else -1
    if mode != "interp":
        return correlate_axis(x, weights, axis, mode, cval, origin)
    if window_length > x.shape[axis]:
        raise ValueError(
            "If mode is 'interp', window_length must be less than or equal to the size of x."
        )
    inner = xp.moveaxis(correlate_axis(x, weights, axis, "constant", 0.0, origin), axis, -1)
    half, last = window_length // 2, xp.moveaxis(x, axis, -1)
    # The polynomial through the first or last window, at the points that have no window.
    fits = theirs.savgol_filter(np.eye(window_length), window_length, polyorder, deriv, delta, 0)
    fits = fits.astype(x.dtype)
    stop = last.shape[-1] - half
    left = xp.matmul(last[..., :window_length], as_tensor(fits[:half].T.copy()))
    right = xp.matmul(last[..., -window_length:], as_tensor(fits[window_length - half :].T.copy()))
    found = xp.concatenate([left, inner[..., half:stop], right], -1)
    return xp.moveaxis(found, -1, axis)
