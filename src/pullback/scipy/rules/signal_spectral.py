"""Rules of the spectra of ``scipy.signal``, by signal and by window."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.fft as sp_fft
import scipy.signal as theirs
from numpy.typing import NDArray

from pullback import fft
from pullback.autograd.namespaces import tensors as xp
from pullback.func.primitive import apply_linear, conjugate
from pullback.interop.arguments import as_tensor
from pullback.operators.shape.functions_padding import pad
from pullback.scipy.conversions import as_floating
from pullback.scipy.registry import option_without_rule, rule
from pullback.tensor.tensor import Tensor

__all__: list[str] = []

_Array = NDArray[Any]


class _Layout(NamedTuple):
    """The lengths and the window by which a signal is cut into segments."""

    window: Any
    length: int  # of a segment
    step: int
    nfft: int


def _layout(size: int, window: Any, nperseg: Any, noverlap: Any, nfft: Any) -> _Layout:
    """Reads the arguments that describe segments, as SciPy does."""
    if nperseg is not None and int(nperseg) < 1:
        raise ValueError("nperseg must be a positive integer")
    if isinstance(window, str | tuple):
        length = 256 if nperseg is None else int(nperseg)
        if length > size:
            warnings.warn(
                f"nperseg = {length:d} is greater than input length  = {size:d}, using "
                f"nperseg = {size:d}",
                stacklevel=5,
            )
            length = size
        window = theirs.get_window(window, length)
    else:
        window = as_tensor(window)
        if window.ndim != 1:
            raise ValueError("window must be 1-D")
        length = window.shape[0] if nperseg is None else int(nperseg)
        if size < window.shape[0]:
            raise ValueError("window is longer than input signal")
        if length != window.shape[0]:
            raise ValueError("value specified for nperseg is different from length of window")
    nfft = length if nfft is None else int(nfft)
    if nfft < length:
        raise ValueError("nfft must be greater than or equal to nperseg.")
    overlap = length // 2 if noverlap is None else int(noverlap)
    if overlap >= length:
        raise ValueError("noverlap must be less than nperseg.")
    return _Layout(as_tensor(window), length, length - overlap, nfft)


def _cut(v: _Array, length: int, step: int) -> Any:
    """The segments of the last axis, as an axis before it."""
    return np.lib.stride_tricks.sliding_window_view(v, length, -1)[..., ::step, :].copy()


def _add(y: _Array, step: int, size: int) -> Any:
    """The sum of segments in their places: the transpose of `_cut`."""
    count, length = y.shape[-2:]
    found = np.zeros((*y.shape[:-2], size), y.dtype)
    for number in range(count):
        found[..., number * step : number * step + length] += y[..., number, :]
    return found


def _segments(x: Any, length: int, step: int) -> Any:
    size = x.shape[-1]
    return apply_linear(x, lambda v: _cut(v, length, step), lambda y: _add(y, step, size))


def _overlap_add(parts: Any, step: int) -> Any:
    count, length = parts.shape[-2:]
    size = length + (count - 1) * step
    return apply_linear(parts, lambda y: _add(y, step, size), lambda v: _cut(v, length, step))


def _remove_trend(x: Any, detrend: Any, axis: int) -> Any:
    if detrend is False or detrend is None:
        return x
    if callable(detrend):
        if axis == -1:
            return detrend(x)
        return xp.moveaxis(detrend(xp.moveaxis(x, -1, axis)), axis, -1)
    if detrend in ("constant", "c"):
        return x - xp.mean(x, -1, True)
    if detrend not in ("linear", "l"):
        raise ValueError("Trend type must be 'linear' or 'constant'.")
    n = x.shape[-1]
    line = np.stack([np.ones(n), np.arange(1, n + 1) / n], 1).astype(x.real.dtype)
    fit = as_tensor(np.linalg.pinv(line).T.astype(x.dtype))
    return x - xp.matmul(xp.matmul(x, fit), as_tensor(line.T.astype(x.dtype)))


def _transform(x: Any, layout: _Layout, detrend: Any, is_onesided: bool, axis: int) -> Any:
    """The spectrum of each segment: (..., segments, frequencies)."""
    parts = _remove_trend(_segments(x, layout.length, layout.step), detrend, axis)
    parts = parts * xp.astype(layout.window, _kind_like(layout.window, x))
    return (fft.rfft if is_onesided else fft.fft)(parts, layout.nfft)


def _kind_like(window: Any, x: Any) -> Any:
    """The dtype of a window beside a signal: its precision, complex if the window is."""
    real = np.float32 if x.dtype in (np.float32, np.complex64) else np.float64
    return np.result_type(real, np.complex64) if window.dtype.kind == "c" else real


def _power_scale(layout: _Layout, fs: Any, scaling: str) -> Any:
    if scaling == "density":
        return 1.0 / (fs * xp.sum(layout.window * layout.window))
    if scaling == "spectrum":
        return 1.0 / xp.sum(layout.window) ** 2
    raise ValueError(f"Unknown scaling: {scaling!r}")


def _frequencies(layout: _Layout, fs: float, is_onesided: bool) -> _Array:
    make = sp_fft.rfftfreq if is_onesided else sp_fft.fftfreq
    return np.asarray(make(layout.nfft, 1 / fs))


def _doubled(layout: _Layout, count: int) -> _Array:
    """Weights of a one-sided power spectrum: each frequency but 0 and Nyquist counts twice."""
    weights = np.full(count, 2.0)
    weights[0] = 1.0
    if layout.nfft % 2 == 0:
        weights[-1] = 1.0
    return weights


def _cross_power(
    x: Any, y: Any, layout: _Layout, fs: Any, detrend: Any, onesided: bool, scaling: str, axis: int
) -> Any:
    """The cross power of each segment, and whether it has one side."""
    is_onesided = onesided and x.dtype.kind != "c" and y.dtype.kind != "c"
    first = _transform(x, layout, detrend, is_onesided, axis)
    second = first if y is x else _transform(y, layout, detrend, is_onesided, axis)
    power = xp.real(first) ** 2 + xp.imag(first) ** 2 if y is x else conjugate(first) * second
    scale = _power_scale(layout, fs, scaling)
    if is_onesided:
        scale = scale * _doubled(layout, power.shape[-1])
    scale = xp.astype(scale, power.real.dtype) if scale.dtype.kind != "c" else scale
    return power * scale, is_onesided


def _average(power: Any, average: str) -> Any:
    """The mean or median over the segments, which are the axis before the last."""
    count = power.shape[-2]
    if count > 1 and average == "median":
        odd = 2.0 * np.arange(1.0, (count - 1) // 2 + 1)
        bias = float(1.0 + np.sum(1.0 / (odd + 1) - 1.0 / odd))
        if power.dtype.kind == "c":
            power = xp.real(power), xp.imag(power)
            return (_middle(power[0]) + 1j * _middle(power[1])) / bias
        return _middle(power) / bias
    if average not in ("mean", "median"):
        raise ValueError(f"Parameter average='{average}' must be 'median' or 'mean'!")
    return xp.mean(power, -2)


def _middle(x: Any) -> Any:
    """The median over the axis before the last, as the mean of the middle two of even counts."""
    ordered, count = xp.sort(x, -2), x.shape[-2]
    return (ordered[..., (count - 1) // 2, :] + ordered[..., count // 2, :]) / 2.0


@rule("scipy.signal.csd", tensors="x y window")
def _csd(
    x: Any,
    y: Any,
    fs: Any,
    detrend: Any,
    axis: int,
    return_onesided: bool = True,
    scaling: str = "density",
    average: str = "mean",
    **segments: Any,
) -> Any:
    is_same = y is x
    x = as_floating(x)
    y = x if is_same else as_floating(y)
    if not x.size or not y.size:
        raise option_without_rule("scipy.signal.csd", "x", "an empty signal")
    first, second = (xp.moveaxis(v, axis, -1) for v in (x, y))
    if is_same:
        second = first
    elif first.shape[-1] != second.shape[-1]:
        size = max(first.shape[-1], second.shape[-1])
        first, second = (
            pad(v, [(0, 0)] * (v.ndim - 1) + [(0, size - v.shape[-1])]) for v in (first, second)
        )
    layout = _layout(first.shape[-1], **segments)
    power, is_onesided = _cross_power(
        first, second, layout, fs, detrend, return_onesided, scaling, axis
    )
    found = xp.moveaxis(_average(power, average), -1, axis)
    return _frequencies(layout, fs, is_onesided), found


@rule("scipy.signal.welch", tensors="x window")
def _welch(x: Any, **options: Any) -> Any:
    return _csd(x, x, **options)


@rule("scipy.signal.periodogram", tensors="x window")
def _periodogram(x: Any, window: Any, nfft: Any, axis: int, **options: Any) -> Any:
    x = as_floating(x)
    size = x.shape[axis]
    if nfft is not None and nfft < size:
        x = xp.moveaxis(xp.moveaxis(x, axis, 0)[:nfft], 0, axis)
        size, nfft = nfft, None
    window = "boxcar" if window is None else window
    if not isinstance(window, str | tuple) and len(window) != size:
        raise ValueError(
            "the size of the window must be the same size of the input on the specified axis"
        )
    segments = {"window": window, "nperseg": size, "noverlap": 0, "nfft": nfft}
    return _csd(x, x, axis=axis, **segments, **options)


@rule("scipy.signal.coherence", tensors="x y window")
def _coherence(x: Any, y: Any, **options: Any) -> Any:
    _, across = _csd(x, y, **options)
    frequencies, first = _csd(x, x, **options)
    _, second = _csd(y, y, **options)
    return frequencies, (xp.real(across) ** 2 + xp.imag(across) ** 2) / first / second


# --- time and frequency ---------------------------------------------------------------------------


def _times(layout: _Layout, size: int, fs: float) -> _Array:
    half = layout.length / 2
    return np.asarray(np.arange(half, size - half + 1, layout.step) / float(fs))


def _finish(found: Any, axis: int) -> Any:
    """The axis of frequencies where the signal's was, and that of the segments last."""
    found = xp.swapaxes(found, -1, -2)
    return xp.moveaxis(found, -2, axis - 1 if axis < 0 else axis)


def _stft_parts(
    x: Any, layout: _Layout, fs: Any, detrend: Any, onesided: bool, scaling: str, axis: int
) -> Any:
    is_onesided = onesided and x.dtype.kind != "c"
    if onesided and not is_onesided:
        warnings.warn("Input data is complex, switching to return_onesided=False", stacklevel=4)
    spectra = _transform(x, layout, detrend, is_onesided, axis)
    scale = xp.sqrt(_power_scale(layout, fs, scaling))
    return spectra * xp.astype(scale, spectra.real.dtype), is_onesided


@rule("scipy.signal.spectrogram", tensors="x window")
def _spectrogram(
    x: Any,
    fs: Any,
    noverlap: Any,
    detrend: Any,
    return_onesided: bool,
    scaling: str,
    axis: int,
    mode: str,
    **segments: Any,
) -> Any:
    if mode not in ("psd", "complex", "magnitude", "angle", "phase"):
        raise ValueError(f"unknown value for mode {mode}")
    if mode == "phase":
        raise option_without_rule("scipy.signal.spectrogram", "mode", mode)
    last = xp.moveaxis(as_floating(x), axis, -1)
    layout = _layout(last.shape[-1], noverlap=0, **segments)
    overlap = layout.length // 8 if noverlap is None else int(noverlap)
    if overlap >= layout.length:
        raise ValueError("noverlap must be less than nperseg.")
    layout = layout._replace(step=layout.length - overlap)
    options = (layout, fs, detrend, return_onesided, scaling, axis)
    if mode == "psd":
        found, is_onesided = _cross_power(last, last, *options)
    else:
        found, is_onesided = _stft_parts(last, *options)
        if mode == "magnitude":
            found = xp.abs(found)
        elif mode == "angle":
            found = xp.atan2(xp.imag(found), xp.real(found))
    times = _times(layout, last.shape[-1], fs)
    return _frequencies(layout, fs, is_onesided), times, _finish(found, axis)


_EXTENSIONS: dict[str, Callable[[Any, list[Any]], Any]] = {
    "even": lambda x, widths: pad(x, widths, mode="reflect"),
    "odd": lambda x, widths: pad(x, widths, mode="reflect", reflect_type="odd"),
    "constant": lambda x, widths: pad(x, widths, mode="edge"),
    "zeros": pad,
}


@rule("scipy.signal.stft", tensors="x window")
def _stft(
    x: Any,
    fs: Any,
    detrend: Any,
    return_onesided: bool,
    boundary: Any,
    padded: bool,
    axis: int,
    scaling: str,
    **segments: Any,
) -> Any:
    if scaling not in ("spectrum", "psd"):
        raise ValueError(f"Parameter scaling='{scaling}' not in ['spectrum', 'psd']!")
    if boundary is not None and boundary not in _EXTENSIONS:
        raise ValueError(f"Unknown boundary option '{boundary}'")
    last = xp.moveaxis(as_floating(x), axis, -1)
    layout = _layout(last.shape[-1], **segments)
    before = [(0, 0)] * (last.ndim - 1)
    if boundary is not None:
        last = _EXTENSIONS[boundary](last, [*before, (layout.length // 2,) * 2])
    if padded:
        missing = (-(last.shape[-1] - layout.length) % layout.step) % layout.length
        last = pad(last, [*before, (0, missing)])
    scaling = "density" if scaling == "psd" else scaling
    found, is_onesided = _stft_parts(last, layout, fs, detrend, return_onesided, scaling, axis)
    times = _times(layout, last.shape[-1], fs)
    if boundary is not None:
        times = times - layout.length / 2 / fs
    return _frequencies(layout, fs, is_onesided), times, _finish(found, axis)


@rule("scipy.signal.istft", tensors="Zxx window")
def _istft(
    Zxx: Any,
    fs: Any,
    window: Any,
    nperseg: Any,
    noverlap: Any,
    nfft: Any,
    input_onesided: bool,
    boundary: bool,
    time_axis: int,
    freq_axis: int,
    scaling: str,
) -> Any:
    z = as_tensor(Zxx)
    if z.ndim < 2:
        raise ValueError("Input stft must be at least 2d!")
    if freq_axis == time_axis:
        raise ValueError("Must specify differing time and frequency axes!")
    if scaling not in ("spectrum", "psd"):
        raise ValueError(f"Parameter scaling='{scaling}' not in ['spectrum', 'psd']!")
    z = xp.moveaxis(z, [freq_axis, time_axis], [-1, -2])
    default = 2 * (z.shape[-1] - 1) if input_onesided else z.shape[-1]
    if nfft is None and nperseg is not None:
        is_odd = input_onesided and int(nperseg) == default + 1
        nfft = int(nperseg) if is_odd else default
    length = default if nperseg is None else int(nperseg)
    if isinstance(window, str | tuple):
        window = theirs.get_window(window, length)
    elif len(window) != length:
        raise ValueError(f"window must have length of {length}")
    layout = _layout(length, window, length, noverlap, nfft)
    parts = (fft.irfft if input_onesided else fft.ifft)(z, layout.nfft)[..., :length]
    win = xp.astype(layout.window, parts.real.dtype)
    squares = xp.sum(win * win)
    parts = parts * (xp.sum(win) if scaling == "spectrum" else xp.sqrt(fs * squares))
    x = _overlap_add(parts * win, layout.step)
    norm = _overlap_add(xp.broadcast_to(win * win, list(parts.shape[-2:])), layout.step)
    if boundary:
        x, norm = (v[..., length // 2 : v.shape[-1] - length // 2] for v in (x, norm))
    is_small = norm <= 1e-10
    if bool(np.any(_values(is_small))):
        warnings.warn("NOLA condition failed, STFT may not be invertible.", stacklevel=3)
    x = x / xp.where(is_small, xp.zeros_like(norm) + 1.0, norm)
    if x.ndim > 1 and time_axis % z.ndim != z.ndim - 1:
        place = time_axis % z.ndim
        x = xp.moveaxis(x, -1, place - 1 if freq_axis % z.ndim < place else place)
    return np.arange(x.shape[0]) / float(fs), x


def _values(x: Any) -> Any:
    held = x._array if isinstance(x, Tensor) else x
    return getattr(held, "array", held)
