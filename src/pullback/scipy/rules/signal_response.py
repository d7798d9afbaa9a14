"""Rules of ``scipy.signal`` by frequencies: responses, analytic signals, resampling."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import scipy.fft as sp_fft
import scipy.signal as theirs
from numpy.typing import NDArray

from pullback import fft
from pullback.autograd.namespaces import tensors as xp
from pullback.interop.arguments import as_tensor
from pullback.scipy.conversions import as_double
from pullback.scipy.registry import option_without_rule, rule
from pullback.tensor.tensor import Tensor

__all__: list[str] = []

_Array = NDArray[Any]
_CIRCLE = 2.0 * np.pi

# --- responses of filters -------------------------------------------------------------------------


def _angles(count: Any, whole: bool, fs: float, include_nyquist: bool) -> Any:
    """Angular frequencies of `worN`: a number of them, or frequencies in the units of `fs`."""
    if isinstance(count, Tensor) or np.ndim(count) > 0:
        return as_double(count) * (_CIRCLE / fs)
    count = 512 if count is None else count
    if int(count) != count:
        return as_tensor(np.atleast_1d(np.asarray(count, np.float64)) * (_CIRCLE / fs))
    if count < 0:
        raise ValueError(f"worN must be nonnegative, got {count}")
    end = _CIRCLE if whole else np.pi
    ends_there = include_nyquist and not whole
    return as_tensor(np.linspace(0.0, end, int(count), endpoint=ends_there))


def _polynomial(weights: Any, angles: Any) -> Any:
    """The sum of weights times powers of exp(-i angle)."""
    phase = xp.expand_dims(angles, -1) * np.arange(len(weights))
    powers = xp.cos(phase) - 1j * xp.sin(phase)
    return xp.sum(powers * weights, -1)


def _response(b: Any, a: Any, angles: Any) -> Any:
    return _polynomial(b, angles) / _polynomial(a, angles)


def _coefficients(name: str, weights: Any) -> Any:
    weights = as_tensor(weights)
    weights = xp.reshape(weights, [1]) if weights.ndim == 0 else weights
    if weights.ndim != 1:
        raise option_without_rule(f"scipy.signal.{name}", "b and a", "of more than one axis")
    return weights


@rule("scipy.signal.freqz", tensors="b a worN")
def _freqz(b: Any, a: Any, worN: Any, whole: bool, fs: float, include_nyquist: bool) -> Any:
    b, a = _coefficients("freqz", b), _coefficients("freqz", a)
    angles = _angles(worN, whole, fs, include_nyquist)
    return _frequencies(angles, fs, worN), _response(b, a, angles)


def _frequencies(angles: Any, fs: float, given: Any) -> Any:
    """The frequencies of a response; an array, unless they were given as a tensor."""
    found = angles * (fs / _CIRCLE)
    return found if isinstance(given, Tensor) else found._array


def _declare_sections(name: str) -> None:
    @rule(f"scipy.signal.{name}", tensors="sos worN args")
    def apply(sos: Any, worN: Any = 512, whole: bool = False, fs: float = _CIRCLE) -> Any:
        sections = as_tensor(sos)
        if sections.ndim != 2 or sections.shape[1] != 6:
            raise ValueError("sos array must be shape (n_sections, 6)")
        if not len(sections):
            raise ValueError("Cannot compute frequencies with no sections")
        angles = _angles(worN, whole, fs, False)
        found: Any = 1.0
        for number in range(len(sections)):
            found = found * _response(sections[number, :3], sections[number, 3:], angles)
        if sections.dtype == np.float32 and not isinstance(worN, Tensor):
            found = xp.astype(found, np.complex64)
        return _frequencies(angles, fs, worN), found


_declare_sections("sosfreqz")
_declare_sections("freqz_sos")

# --- analytic signals -----------------------------------------------------------------------------


@rule("scipy.signal.hilbert", tensors="x")
def _hilbert(x: Any, N: Any, axis: int) -> Any:
    x = as_tensor(x)
    if x.dtype.kind == "c":
        raise ValueError("x must be real.")
    count = x.shape[axis] if N is None else int(N)
    if count <= 0:
        raise ValueError("N must be positive.")
    weights = np.zeros(count)
    weights[0] = 1.0
    weights[1 : (count + 1) // 2] = 2.0
    if count % 2 == 0:
        weights[count // 2] = 1.0
    spectrum = fft.fft(xp.moveaxis(x, axis, -1), count)
    found = fft.ifft(spectrum * weights.astype(spectrum.real.dtype))
    return xp.moveaxis(found, -1, axis)


# --- resampling -----------------------------------------------------------------------------------


def _spectral_window(window: Any, count: int) -> Any:
    """The weights of the frequencies, in the order of `fftfreq`; None for no window."""
    if window is None:
        return None
    if callable(window):
        return as_tensor(window(sp_fft.fftfreq(count)))
    if isinstance(window, np.ndarray | Tensor):
        if tuple(window.shape) != (count,):
            raise ValueError("window must have the same length as data")
        return as_tensor(window)
    return as_tensor(theirs.get_window(window, count))[_window_order()(np.arange(count))]


@cache
def _window_order() -> Callable[[_Array], Any]:
    """The order in which SciPy takes a named window of odd length; its versions differ in it."""
    window = ("gaussian", 1.0)
    impulse = theirs.resample(np.ones(3), 3, window=window, domain="freq")
    is_shift = np.allclose(sp_fft.fft(impulse), sp_fft.fftshift(theirs.get_window(window, 3)))
    return sp_fft.fftshift if is_shift else sp_fft.ifftshift  # type: ignore[no-any-return]


def _cut_spectrum(spectrum: Any, num: int) -> Any:
    """The frequencies that two lengths share; the one at their limit is united or split."""
    count = spectrum.shape[-1]
    if num == count:
        return spectrum
    shared = min(num, count)
    low, high = (shared + 1) // 2, shared // 2 if shared % 2 else shared // 2 - 1
    middle: list[Any] = []
    if shared % 2 == 0:
        edge = spectrum[..., shared // 2 : shared // 2 + 1]
        if num < count:
            middle = [edge + spectrum[..., count - shared // 2 : count - shared // 2 + 1]]
        else:
            middle = [edge / 2.0, _zeros(spectrum, num - shared - 1), edge / 2.0]
    elif num > count:
        middle = [_zeros(spectrum, num - shared)]
    last = spectrum[..., count - high :]
    return xp.concatenate([spectrum[..., :low], *middle, last], -1)


def _zeros(like: Any, count: int) -> Any:
    return as_tensor(np.zeros((*like.shape[:-1], count), like.dtype))


@rule("scipy.signal.resample", tensors="x window")
def _resample(x: Any, num: int, t: Any, axis: int, window: Any, domain: str) -> Any:
    if domain not in ("time", "freq"):
        raise ValueError(f"Parameter domain={domain!r} not in ('time', 'freq')!")
    signal = xp.moveaxis(as_tensor(x), axis, -1)
    count = signal.shape[-1]
    spectrum = fft.fft(signal) if domain == "time" else signal
    weights = _spectral_window(window, count)
    if weights is not None:
        if domain == "time" and signal.dtype.kind != "c":  # else SciPy widens single precision
            weights = xp.astype(weights, spectrum.real.dtype)
        spectrum = spectrum * weights
    found = fft.ifft(_cut_spectrum(spectrum, num)) * (num / count)
    if domain == "time" and signal.dtype.kind != "c":
        found = xp.real(found)
    found = xp.moveaxis(found, -1, axis)
    if t is None:
        return found
    times = np.asarray(t._array if isinstance(t, Tensor) else t)
    return found, times[0] + (times[1] - times[0]) * (count / num) * np.arange(num)
