"""Rules of the convolutions of ``scipy.signal``, by both arguments."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import scipy.fft as sp_fft
import scipy.signal as theirs
from numpy.typing import NDArray
from scipy.ndimage import correlate

from pullback.autograd.namespaces import tensors as xp
from pullback.func.bilinear import Bilinear, sum_of_products
from pullback.func.primitive import conjugate
from pullback.interop.arguments import as_tensor
from pullback.operators.shape.functions_padding import pad
from pullback.scipy.registry import option_without_rule, rule
from pullback.tensor.tensor import Tensor

__all__: list[str] = []

_Array = NDArray[Any]
_Shape = tuple[int, ...]


def _crop_full(mode: str, n: int, m: int) -> slice:
    """The part of the full convolution of two lengths that a mode keeps."""
    if mode == "same":
        return slice((m - 1) // 2, (m - 1) // 2 + n)
    return slice(min(n, m) - 1, max(n, m)) if mode == "valid" else slice(None)


# --- the kernels ----------------------------------------------------------------------------------


def _forward(
    x: _Array, w: _Array, mode: str, method: str, axes: Any, shapes: tuple[_Shape, _Shape]
) -> Any:
    del shapes
    if method == "direct":
        return theirs.convolve2d(x, w, mode) if x.ndim == 2 else theirs.convolve(x, w, mode, method)
    function = theirs.fftconvolve if method == "fft" else theirs.oaconvolve
    return function(x, w, mode, axes)


def _to_other(
    place: int,
    known: _Array,
    y: _Array,
    mode: str,
    method: str,
    axes: Any,
    shapes: tuple[_Shape, _Shape],
) -> Any:
    """The transpose: the correlation of y, in its place in the full result, with `known`."""
    wanted, other = shapes[place], known.shape
    along = range(len(wanted)) if axes is None else [axis % len(wanted) for axis in axes]
    full_shape, inside = list(y.shape), [slice(None)] * y.ndim
    for axis in along:
        full_shape[axis] = wanted[axis] + other[axis] - 1
        inside[axis] = _crop_full(mode, shapes[0][axis], shapes[1][axis])
    full = y
    if full_shape != list(y.shape):
        full = np.zeros(full_shape, y.dtype)
        full[tuple(inside)] = y
    if method == "direct":
        return _direct_correlate(full, known, wanted)
    if method == "oa" and place == 0:
        flipped = np.flip(known, tuple(along))
        found = theirs.oaconvolve(full, flipped, "valid", list(along))
    else:
        found = _fft_correlate(full, known, list(along))[
            tuple(slice(wanted[a]) if a in along else slice(None) for a in range(y.ndim))
        ]
    repeated = tuple(a for a in range(y.ndim) if wanted[a] == 1 != found.shape[a])
    return found.sum(repeated, keepdims=True) if repeated else found


def _direct_correlate(y: _Array, known: _Array, wanted: _Shape) -> Any:
    """``sum_k known[k] y[n + k]`` for lags n, by sums over the smaller one of n and k."""
    if y.ndim == 1:
        return np.convolve(y, known[::-1], "valid")
    if known.size <= np.prod(wanted):
        origin = [-(n // 2) for n in known.shape]
        weights = known.conj() if known.dtype.kind == "c" else known
        found = correlate(y, weights, mode="constant", origin=origin)
        return found[tuple(slice(n) for n in wanted)]
    found = np.zeros(wanted, np.result_type(y, known))
    for lag in product(*map(range, wanted)):
        part = y[tuple(slice(at, at + n) for at, n in zip(lag, known.shape, strict=True))]
        found[lag] = sum_of_products(part, known)
    return found


def _fft_correlate(y: _Array, known: _Array, axes: list[int]) -> Any:
    """``sum_k known[k] y[n + k]`` for lags n from 0: cyclic, and the ends do not meet."""
    is_real = y.dtype.kind != "c" and known.dtype.kind != "c"
    sizes = [sp_fft.next_fast_len(y.shape[axis], is_real) for axis in axes]
    if not is_real:
        by_known = sp_fft.ifftn(known, sizes, axes) * np.prod(sizes)
        return sp_fft.ifftn(sp_fft.fftn(y, sizes, axes) * by_known, sizes, axes)
    by_known = np.conj(sp_fft.rfftn(known, sizes, axes))
    return sp_fft.irfftn(sp_fft.rfftn(y, sizes, axes) * by_known, sizes, axes)


def _to_left(w: _Array, y: _Array, **options: Any) -> Any:
    return _to_other(0, w, y, **options)


def _to_right(x: _Array, y: _Array, **options: Any) -> Any:
    return _to_other(1, x, y, **options)


_CONVOLVE = Bilinear("scipy.signal.convolve", _forward, _to_left, _to_right)


def _convolve_axes(x: Any, w: Any, mode: str, method: str, axes: Any = None) -> Tensor:
    """The convolution along axes, by "direct" sums, "fft", or "oa" (overlap and add)."""
    x, w = as_tensor(x), as_tensor(w)
    shapes = (tuple(x.shape), tuple(w.shape))
    found: Tensor = _CONVOLVE(x, w, mode=mode, method=method, axes=axes, shapes=shapes)
    return found


# --- the rules ------------------------------------------------------------------------------------


def _choose(in1: Any, in2: Any, mode: str, method: str) -> str:
    """The method that SciPy takes for the shapes; inside vmap, those of a sample."""
    if method == "auto":
        ones = [np.ones(v.shape, v.dtype) for v in (as_tensor(in1), as_tensor(in2))]
        return str(theirs.choose_conv_method(*ones, mode))
    if method not in ("direct", "fft"):
        raise ValueError("Acceptable method flags are 'auto', 'direct', or 'fft'.")
    return method


def _reversed(x: Any) -> Any:
    x = as_tensor(x)
    return conjugate(xp.flip(x, list(range(x.ndim))))


@rule("scipy.signal.convolve", tensors="in1 in2")
def _convolve(in1: Any, in2: Any, mode: str, method: str) -> Any:
    in1, in2 = as_tensor(in1), as_tensor(in2)
    if in1.ndim == in2.ndim == 0:
        return in1 * in2
    if in1.ndim != in2.ndim:
        raise ValueError("volume and kernel should have the same dimensionality")
    if not in1.size or not in2.size:
        return as_tensor(np.zeros(0, np.result_type(in1.dtype, in2.dtype))) + 0.0 * xp.sum(in1)
    return _convolve_axes(in1, in2, mode, _choose(in1, in2, mode, method))


@rule("scipy.signal.correlate", tensors="in1 in2")
def _correlate(in1: Any, in2: Any, mode: str, method: str) -> Any:
    in1, in2 = as_tensor(in1), as_tensor(in2)
    if in1.ndim == in2.ndim == 0:
        return in1 * conjugate(in2)
    if in1.ndim != in2.ndim:
        raise ValueError("in1 and in2 should have the same dimensionality")
    return _convolve(in1, _reversed(in2), mode, method)


@rule("scipy.signal.fftconvolve", tensors="in1 in2")
def _fftconvolve(in1: Any, in2: Any, mode: str, axes: Any) -> Any:
    return _by_transform(in1, in2, mode, axes, "fft")


@rule("scipy.signal.oaconvolve", tensors="in1 in2")
def _oaconvolve(in1: Any, in2: Any, mode: str, axes: Any) -> Any:
    return _by_transform(in1, in2, mode, axes, "oa")


def _by_transform(in1: Any, in2: Any, mode: str, axes: Any, method: str) -> Any:
    in1, in2 = as_tensor(in1), as_tensor(in2)
    if in1.ndim == in2.ndim == 0:
        return in1 * in2
    if axes is not None:
        axes = (axes,) if isinstance(axes, int) else tuple(axes)
    return _convolve_axes(in1, in2, mode, method, axes)


_INDEX_MODES = {"circular": "wrap", "wrap": "wrap", "symm": "symmetric", "symmetric": "symmetric"}


@rule("scipy.signal.convolve2d", tensors="in1 in2 fillvalue")
def _convolve2d(in1: Any, in2: Any, mode: str, boundary: str, fillvalue: Any) -> Any:
    in1, in2 = as_tensor(in1), as_tensor(in2)
    if not in1.ndim == in2.ndim == 2:
        raise ValueError("convolve2d inputs must both be 2-D arrays")
    if mode not in ("full", "same", "valid"):
        raise ValueError("Acceptable mode flags are 'valid', 'same', or 'full'.")
    if boundary == "fill" or mode == "valid":
        is_zero = mode == "valid" or (type(fillvalue) in (int, float) and fillvalue == 0)
        if is_zero:
            return _convolve_axes(in1, in2, mode, "direct")
        inner = _convolve_axes(in1 - fillvalue, in2, mode, "direct")
        return inner + fillvalue * xp.sum(in2)
    if boundary not in _INDEX_MODES:
        raise ValueError("Acceptable boundary flags are 'fill', 'circular' (or 'wrap'), 'symm'.")
    if any(m > n + 1 for n, m in zip(in1.shape, in2.shape, strict=True)):
        raise option_without_rule("scipy.signal.convolve2d", "boundary", boundary)
    widths = [(m - 1, m - 1) for m in in2.shape]
    longer = pad(in1, widths, mode=_INDEX_MODES[boundary])
    full = _convolve_axes(longer, in2, "valid", "direct")
    pairs = zip(in1.shape, in2.shape, strict=True)
    return full[tuple(_crop_full(mode, n, m) for n, m in pairs)]


@rule("scipy.signal.correlate2d", tensors="in1 in2 fillvalue")
def _correlate2d(in1: Any, in2: Any, mode: str, boundary: str, fillvalue: Any) -> Any:
    full = _convolve2d(in1, _reversed(in2), "full" if mode == "same" else mode, boundary, fillvalue)
    if mode != "same":
        return full
    pairs = zip(as_tensor(in1).shape, as_tensor(in2).shape, strict=True)
    return full[tuple(slice(m // 2, m // 2 + n) for n, m in pairs)]


# --- polyphase filters ----------------------------------------------------------------------------


def _upfirdn(x: _Array, h: _Array, up: int, down: int, axis: int, shapes: Any) -> Any:
    del shapes
    return theirs.upfirdn(h, x, up, down, axis)


def _upfirdn_to_x(h: _Array, y: _Array, up: int, down: int, axis: int, shapes: Any) -> Any:
    """The reversed filter, with up and down exchanged; zeros in front bring it into phase."""
    n, last = shapes[0][axis], len(h) - 1
    reverse = np.concatenate([np.zeros(-last % up, h.dtype), h[::-1]])
    first = (last + -last % up) // up
    found = np.moveaxis(theirs.upfirdn(reverse, y, down, up, axis), axis, -1)
    found = found[..., first : first + n]
    short = n - found.shape[-1]  # samples that no result reads
    if short:
        found = np.concatenate([found, np.zeros((*found.shape[:-1], short), found.dtype)], -1)
    return np.moveaxis(found, -1, axis)


def _upfirdn_to_h(x: _Array, y: _Array, up: int, down: int, axis: int, shapes: Any) -> Any:
    """``sum of y[m] x[n] over m * down - n * up = j`` for each coefficient j."""
    (count,) = shapes[1]
    x, y = np.moveaxis(x, axis, -1), np.moveaxis(y, axis, -1)
    length = (x.shape[-1] - 1) * up + count
    wide = np.zeros((*y.shape[:-1], max(length, (y.shape[-1] - 1) * down + 1)), y.dtype)
    wide[..., : y.shape[-1] * down : down] = y
    spread = np.zeros((*x.shape[:-1], (x.shape[-1] - 1) * up + 1), x.dtype)
    spread[..., ::up] = x
    found = _fft_correlate(wide, spread, [wide.ndim - 1])[..., :count]
    return found.reshape(-1, count).sum(0)


_UPFIRDN = Bilinear("scipy.signal.upfirdn", _upfirdn, _upfirdn_to_x, _upfirdn_to_h)


_PAD_MODES = ("constant", "edge", "reflect", "symmetric", "wrap")


@rule("scipy.signal.upfirdn", tensors="h x cval")
def _upfirdn_rule(h: Any, x: Any, up: int, down: int, axis: int, mode: str, cval: Any) -> Any:
    x, h = as_tensor(x), as_tensor(h)
    if mode == "constant" and type(cval) in (int, float) and cval == 0:
        shapes = (tuple(x.shape), tuple(h.shape))
        return _UPFIRDN(x, h, up=int(up), down=int(down), axis=axis, shapes=shapes)
    if mode not in _PAD_MODES:
        raise option_without_rule("scipy.signal.upfirdn", "mode", mode)
    # Longer by a multiple of `down`, so that the results come to lie at the same places.
    before = -(-len(h) // (up * down)) * down
    widths = [(0, 0)] * x.ndim
    widths[axis] = (before, before)
    options = {"constant_values": cval} if mode == "constant" else {}
    longer = pad(x, widths, mode=mode, **options)
    found = _upfirdn_rule(h, longer, up, down, axis, "constant", 0)
    count = -(-((x.shape[axis] - 1) * up + len(h)) // down)
    keep = [slice(None)] * x.ndim
    keep[axis] = slice(before * up // down, before * up // down + count)
    return found[tuple(keep)]
