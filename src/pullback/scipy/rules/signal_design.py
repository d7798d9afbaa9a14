"""Rules of filter design in ``scipy.signal``: by critical frequencies, ripples, roots and widths.

The analog prototype is constant or smooth in its ripple. Its transformations move zeros
and poles. Second-order sections take the pairs of roots that SciPy chooses on the values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.signal as theirs
from numpy.typing import NDArray

from pullback.autograd.namespaces import tensors as xp
from pullback.errors import DataDependentError
from pullback.func.primitive import all_values
from pullback.interop.arguments import as_tensor
from pullback.scipy.batches import call_on_values
from pullback.scipy.conversions import as_double
from pullback.scipy.registry import rule
from pullback.tensor.payload import Payload
from pullback.tensor.tensor import Tensor

__all__: list[str] = []

_Array = NDArray[Any]
_BANDS = {
    **dict.fromkeys(("band", "bandpass", "pass", "bp"), "bandpass"),
    **dict.fromkeys(("bs", "bandstop", "bands", "stop"), "bandstop"),
    **dict.fromkeys(("l", "low", "lowpass", "lp"), "lowpass"),
    **dict.fromkeys(("high", "highpass", "h", "hp"), "highpass"),
}
_PROTOTYPES = {
    **dict.fromkeys(("butter", "butterworth"), "butter"),
    **dict.fromkeys(("cheby1", "chebyshev1", "chebyshevi"), "cheby1"),
    **dict.fromkeys(("cheby2", "chebyshev2", "chebyshevii"), "cheby2"),
    **dict.fromkeys(("ellip", "elliptic", "cauer", "ca"), "ellip"),
    "bessel": "phase",
    "bessel_phase": "phase",
    "bessel_delay": "delay",
    "bessel_mag": "mag",
}


def _is_any(condition: Any) -> bool:
    """Whether a condition on values holds somewhere; inside vmap values cannot be read."""
    held = condition._array if isinstance(condition, Tensor) else condition
    return not isinstance(held, Payload) and bool(np.any(held))


# --- prototypes -----------------------------------------------------------------------------------


def _chebyshev(n: int, ripple: Any, *, is_second: bool) -> tuple[Any, Any, Any]:
    """Zeros, poles and gain of a Chebyshev filter of either type, by its ripple in decibels."""
    if n == 0:
        return np.zeros(0), np.zeros(0), 10.0 ** (-as_double(ripple) / 20.0)
    excess = 10.0 ** (0.1 * as_double(ripple)) - 1.0
    epsilon = 1.0 / xp.sqrt(excess) if is_second else xp.sqrt(excess)
    mu = xp.asinh(1.0 / epsilon) / n
    places = np.arange(-n + 1, n, 2)
    if not is_second:
        angle = np.pi * places / (2 * n)
        p = -(xp.sinh(mu) * np.cos(angle) + 1j * (xp.cosh(mu) * np.sin(angle)))
        k = xp.real(xp.prod(-p))
        return np.zeros(0), p, k / xp.sqrt(1.0 + epsilon * epsilon) if n % 2 == 0 else k
    kept = places[places != 0] if n % 2 else places
    z = -np.conj(1j / np.sin(kept * np.pi / (2.0 * n)))
    circle = -np.exp(1j * np.pi * places / (2 * n))
    p = 1.0 / (xp.sinh(mu) * circle.real + 1j * (xp.cosh(mu) * circle.imag))
    return z, p, xp.real(xp.prod(-p) / np.prod(-z))


def _prototype(kind: str, n: int, rp: Any, rs: Any) -> tuple[Any, Any, Any]:
    if kind == "butter":
        return theirs.buttap(n)  # type: ignore[no-any-return]
    if kind in ("phase", "delay", "mag"):
        return theirs.besselap(n, norm=kind)  # type: ignore[no-any-return]
    for name, value in (("rp", rp), ("rs", rs)):
        if value is not None and _is_any(as_tensor(value) < 0):
            raise ValueError(f"the ripple {name} must be positive")
        if value is None and name in {"cheby1": "rp", "cheby2": "rs", "ellip": "rp rs"}[kind]:
            raise ValueError(f"{name} must be provided to design a filter of type {kind}.")
    if kind == "ellip":
        return theirs.ellipap(n, rp, rs)  # type: ignore[no-any-return]
    is_second = kind == "cheby2"
    return _chebyshev(n, rs if is_second else rp, is_second=is_second)


# --- transformations ------------------------------------------------------------------------------


def _append(roots: Any, *values: Any) -> Any:
    """Roots with further ones behind them."""
    further = [xp.reshape(as_tensor(value), [1]) for value in values]
    dtype = np.result_type(*(part.dtype for part in (roots, *further)))
    return xp.concatenate([xp.astype(part, dtype) for part in (roots, *further)], 0)


def _excess(z: Any, p: Any) -> int:
    """The number of zeros at infinity."""
    if len(p) < len(z):
        raise ValueError("Improper transfer function. Must have at least as many poles as zeros.")
    return len(p) - len(z)


def _ratio(z: Any, p: Any) -> Any:
    """The real part of the product of zeros, divided by that of poles."""
    found = xp.prod(as_tensor(z)) / xp.prod(as_tensor(p))
    return xp.real(found) if found.dtype.kind == "c" else found


def _roots(*values: Any) -> tuple[Any, ...]:
    return tuple(xp.reshape(v, [-1]) for v in map(as_tensor, values))


@rule("scipy.signal.lp2lp_zpk", tensors="z p k wo")
def _lp2lp_zpk(z: Any, p: Any, k: Any, wo: Any) -> Any:
    z, p = _roots(z, p)
    return z * wo, p * wo, k * wo ** _excess(z, p)


@rule("scipy.signal.lp2hp_zpk", tensors="z p k wo")
def _lp2hp_zpk(z: Any, p: Any, k: Any, wo: Any) -> Any:
    z, p = _roots(z, p)
    zeros = _append(wo / z, *[0.0] * _excess(z, p))
    return zeros, wo / p, k * _ratio(-z, -p)


def _split(roots: Any, wo: Any) -> Any:
    """The two roots of a band filter that belong to each root of the lowpass."""
    roots = xp.astype(roots, np.complex128)
    distance = xp.sqrt(roots**2 - wo**2)
    return xp.concatenate([roots + distance, roots - distance], 0)


@rule("scipy.signal.lp2bp_zpk", tensors="z p k wo bw")
def _lp2bp_zpk(z: Any, p: Any, k: Any, wo: Any, bw: Any) -> Any:
    z, p = _roots(z, p)
    degree = _excess(z, p)
    zeros = _append(_split(z * bw / 2.0, wo), *[0.0] * degree)
    return zeros, _split(p * bw / 2.0, wo), k * bw**degree


@rule("scipy.signal.lp2bs_zpk", tensors="z p k wo bw")
def _lp2bs_zpk(z: Any, p: Any, k: Any, wo: Any, bw: Any) -> Any:
    z, p = _roots(z, p)
    degree = _excess(z, p)
    zeros = _append(_split(bw / 2.0 / z, wo), *[1j * wo] * degree, *[-1j * wo] * degree)
    return zeros, _split(bw / 2.0 / p, wo), k * _ratio(-z, -p)


@rule("scipy.signal.bilinear_zpk", tensors="z p k")
def _bilinear_zpk(z: Any, p: Any, k: Any, fs: float) -> Any:
    z, p = _roots(z, p)
    twice = 2.0 * fs
    zeros = _append((twice + z) / (twice - z), *[-1.0] * _excess(z, p))
    return zeros, (twice + p) / (twice - p), k * _ratio(twice - z, twice - p)


def _substitute(b: Any, a: Any, above: list[float], below: list[float], *, trims: bool) -> Any:
    """The filter at ``above(s) / below(s)`` in the place of s, with 1 as its leading coefficient.

    The coefficients of a polynomial of the new filter are linear in those of the old one. `trims`
    says that the numerator loses the leading coefficients that are zero by its degree.
    """
    b, a = _roots(b, a)
    degree = max(len(a), len(b)) - 1
    powers = [
        np.polymul(np.poly1d(above) ** k, np.poly1d(below) ** (degree - k)).coeffs
        for k in range(degree + 1)
    ]
    size = degree * (max(len(above), len(below)) - 1) + 1
    matrix = np.stack([np.r_[np.zeros(size - len(row)), row] for row in powers])

    def move(v: Any) -> Any:
        rows = as_tensor(matrix[: len(v)][::-1].copy())  # the coefficient of s^0 comes last
        found = xp.sum(xp.expand_dims(v, 1) * rows, 0)
        return found[degree + 1 - len(v) :] if trims else found

    numerator, denominator = move(b), move(a)
    return numerator / denominator[0], denominator / denominator[0]


@rule("scipy.signal.bilinear", tensors="b a")
def _bilinear(b: Any, a: Any, fs: float) -> Any:
    return _substitute(b, a, [2.0 * fs, -2.0 * fs], [1.0, 1.0], trims=False)


@rule("scipy.signal.lp2bp", tensors="b a")
def _lp2bp(b: Any, a: Any, wo: float, bw: float) -> Any:
    return _substitute(b, a, [1.0, 0.0, wo * wo], [bw, 0.0], trims=True)


@rule("scipy.signal.lp2bs", tensors="b a")
def _lp2bs(b: Any, a: Any, wo: float, bw: float) -> Any:
    return _substitute(b, a, [bw, 0.0], [1.0, 0.0, wo * wo], trims=False)


# --- filters --------------------------------------------------------------------------------------


@rule("scipy.signal.iirfilter", tensors="Wn rp rs")
def _iirfilter(
    N: int,
    Wn: Any,
    btype: str,
    analog: bool,
    ftype: str,
    output: str,
    fs: Any,
    rp: Any = None,
    rs: Any = None,
) -> Any:
    wn = as_double(Wn)
    band, kind = _BANDS.get(btype.lower()), _PROTOTYPES.get(ftype.lower())
    if band is None:
        raise ValueError(f"'{btype}' is an invalid bandtype for filter.")
    if kind is None:
        raise ValueError(f"'{ftype}' is not a valid basic IIR filter.")
    if output not in ("ba", "zpk", "sos"):
        raise ValueError(f"'{output}' is not a valid output form.")
    if fs is not None:
        if analog:
            raise ValueError("fs cannot be specified for an analog filter")
        wn = wn / (fs / 2)
    if _is_any(wn <= 0) or (not analog and _is_any(wn >= 1)):
        raise ValueError("Digital filter critical frequencies must be 0 < Wn < fs/2")
    if wn.size > 1 and _is_any(wn[0] >= wn[1]):
        raise ValueError("Wn[0] must be less than Wn[1]")
    warped = wn if analog else 4.0 * xp.tan(np.pi * wn / 2.0)
    z, p, k = _prototype(kind, N, rp, rs)
    if band in ("lowpass", "highpass"):
        if wn.size != 1:
            raise ValueError("Must specify a single critical frequency Wn for lowpass or highpass")
        lowpass_to = _lp2lp_zpk if band == "lowpass" else _lp2hp_zpk
        z, p, k = lowpass_to(z, p, k, wo=xp.reshape(warped, []))
    else:
        if wn.size != 2:
            raise ValueError("Wn must specify start and stop frequencies for bandpass or bandstop")
        band_to = _lp2bp_zpk if band == "bandpass" else _lp2bs_zpk
        z, p, k = band_to(z, p, k, wo=xp.sqrt(warped[0] * warped[1]), bw=warped[1] - warped[0])
    if not analog:
        z, p, k = _bilinear_zpk(z, p, k, fs=2.0)
    if output == "zpk":
        return z, p, k
    return _zpk2tf(z, p, k) if output == "ba" else _zpk2sos(z, p, k, analog=analog)


def _declare_filter(name: str, tensors: str) -> None:
    @rule(f"scipy.signal.{name}", tensors=tensors)
    def apply(**options: Any) -> Any:
        return _iirfilter(ftype=name, **options)


for _name, _tensors in {
    "butter": "Wn",
    "cheby1": "rp Wn",
    "cheby2": "rs Wn",
    "ellip": "Wn",
}.items():
    _declare_filter(_name, _tensors)


@rule("scipy.signal.bessel", tensors="Wn")
def _bessel(norm: str, **options: Any) -> Any:
    return _iirfilter(ftype=f"bessel_{norm}", **options)


def _resonator(w0: Any, q: Any, fs: float, *, is_notch: bool) -> Any:
    w0 = 2.0 * as_double(w0) / fs
    if _is_any((w0 <= 0) | (w0 >= 1)):
        raise ValueError("w0 should be such that 0 < w0 < 1")
    width = np.pi * w0 / as_double(q)
    gain = 1.0 / (1.0 + xp.tan(width / 2.0))
    cosine, one = xp.cos(np.pi * w0), gain / gain
    if is_notch:
        b = xp.stack([gain, -2.0 * gain * cosine, gain])
    else:
        b = xp.stack([1.0 - gain, 0.0 * gain, gain - 1.0])
    return b, xp.stack([one, -2.0 * gain * cosine, 2.0 * gain - 1.0])


@rule("scipy.signal.iirnotch", tensors="w0 Q")
def _iirnotch(w0: Any, Q: Any, fs: float) -> Any:
    return _resonator(w0, Q, fs, is_notch=True)


@rule("scipy.signal.iirpeak", tensors="w0 Q")
def _iirpeak(w0: Any, Q: Any, fs: float) -> Any:
    return _resonator(w0, Q, fs, is_notch=False)


# --- forms of filters -----------------------------------------------------------------------------


def _poly(roots: Any) -> Any:
    """The coefficients of the polynomial with given roots; real if they are conjugate pairs."""
    found: Any = [1.0]
    for number in range(len(roots)):
        root = roots[number]
        longer = [*found, 0.0]
        found = [c - root * b for c, b in zip(longer, [0.0, *found], strict=True)]
    result = xp.stack([as_tensor(c) + 0.0 * _zero(roots) for c in found])
    if result.dtype.kind == "c":
        values = as_tensor(roots)._array
        is_batched = isinstance(values, Payload)
        pairs = values if is_batched else np.asarray(values)
        if is_batched or np.all(
            np.sort(pairs[pairs.imag != 0]) == np.sort(pairs[pairs.imag != 0].conj())
        ):
            return xp.real(result)
    return result


def _zero(roots: Any) -> Any:
    return xp.sum(0.0 * as_tensor(roots)) if len(roots) else as_tensor(0.0)


@rule("scipy.signal.zpk2tf", tensors="z p k")
def _zpk2tf(z: Any, p: Any, k: Any) -> Any:
    z, p = (
        xp.reshape(as_tensor(v), [-1]) if as_tensor(v).ndim == 0 else as_tensor(v) for v in (z, p)
    )
    return as_tensor(k) * _poly(z), _poly(p)


def _places(z: _Array, p: _Array, k: Any, pairing: Any, analog: bool) -> _Array:
    """The roots that SciPy takes for each section: (sections, zeros and poles, 2).

    Index len(roots) is a root at 0 that SciPy adds, and -1 stands for no root.
    """
    sos = theirs.zpk2sos(z, p, k, pairing, analog=analog)
    found = np.full((len(sos), 2, 2), -1)
    for side, roots in enumerate((z, p)):
        free = np.ones(len(roots), bool)
        for number in range(len(sos) - 1, -1, -1):
            section = np.trim_zeros(sos[number, 3 * side : 3 * side + 3], "f")
            for place, root in enumerate(np.roots(section) if len(section) else ()):
                distance = np.where(free, np.abs(roots - root), np.inf)
                nearest = int(np.argmin(distance)) if free.any() else len(roots)
                if nearest < len(roots) and distance[nearest] > 1e-3 * (1 + abs(root)):
                    nearest = len(roots)
                if nearest < len(roots):
                    free[nearest] = False
                found[number, side, place] = nearest
    return found


@rule("scipy.signal.zpk2sos", tensors="z p k")
def _zpk2sos(z: Any, p: Any, k: Any, pairing: Any = None, analog: bool = False) -> Any:
    z, p, k = as_tensor(z), as_tensor(p), as_tensor(k)
    places = call_on_values("scipy.signal.zpk2sos", _places, (z, p, k, pairing, analog), {})
    sections = [
        xp.concatenate([_side(z, places[n, 0]), _side(p, places[n, 1])], 0)
        for n in range(places.shape[0])
    ]
    first = xp.concatenate([sections[0][:3] * xp.real(k), sections[0][3:]], 0)
    return xp.stack([first, *sections[1:]])


def _side(roots: Any, chosen: Any) -> Any:
    """The polynomial of two roots, one or none; lower degrees have zeros in front."""
    values = xp.concatenate([roots, xp.zeros_like(as_tensor(np.zeros(1, roots.dtype)))], 0)
    counts = np.sum(all_values(as_tensor(chosen)) >= 0, -1)
    if np.ptp(counts):
        raise DataDependentError(
            "vmap: scipy.signal.zpk2sos gives sections of other degrees for other samples"
        )
    poly = _poly(values[chosen[: int(counts.flat[0])]])
    poly = xp.real(poly) if poly.dtype.kind == "c" else poly
    return xp.concatenate([as_tensor(np.zeros(3 - len(poly))), poly], 0)


# --- initial states -------------------------------------------------------------------------------


@rule("scipy.signal.lfilter_zi", tensors="b a")
def _lfilter_zi(b: Any, a: Any) -> Any:
    b, a = as_tensor(b), as_tensor(a)
    if b.ndim != 1 or a.ndim != 1:
        raise ValueError("Numerator b and denominator a must be 1-D.")
    while len(a) > 1 and not isinstance(a._array, Payload) and a._array[0] == 0.0:
        a = a[1:]
    if not len(a):
        raise ValueError("There must be at least one nonzero `a` coefficient.")
    b, a = b / a[0], a / a[0]
    count = max(len(a), len(b))
    a, b = _padded(a, count), _padded(b, count)
    rest = b[1:] - a[1:] * b[0]
    first = xp.sum(rest) / xp.sum(a)
    sums = xp.concatenate([0.0 * rest[:1], xp.cumsum(rest, 0)[:-1]], 0)
    return xp.cumsum(a, 0)[:-1] * first - sums


@rule("scipy.signal.sosfilt_zi", tensors="sos")
def _sosfilt_zi(sos: Any) -> Any:
    sos = as_tensor(sos)
    if sos.ndim != 2 or sos.shape[1] != 6:
        raise ValueError("sos array must be shape (n_sections, 6)")
    found, scale = [], 1.0
    for number in range(len(sos)):
        b, a = sos[number, :3], sos[number, 3:]
        found.append(_lfilter_zi(b, a) * scale)
        scale = scale * (xp.sum(b) / xp.sum(a))
    return xp.stack(found)


@rule("scipy.signal.lfiltic", tensors="b a y x")
def _lfiltic(b: Any, a: Any, y: Any, x: Any) -> Any:
    b, a, y = (xp.reshape(v, [-1]) for v in map(as_tensor, (b, a, y)))
    x = as_tensor(np.zeros(0, b.dtype)) if x is None else xp.reshape(as_tensor(x), [-1])
    if _is_any(a[0] == 0.0):
        raise ValueError("There must be at least one nonzero `a` coefficient.")
    b, a = b / a[0], a / a[0]
    count = max(len(a), len(b)) - 1
    places = np.arange(count)[:, None] + 1 + np.arange(count)[None, :]  # delays of past samples
    found = 0.0
    for weights, past, sign in ((b, x, 1.0), (a, y, -1.0)):
        longer = _padded(weights, 2 * count + 1)
        found = found + sign * xp.sum(longer[places] * _padded(past, count)[:count], 1)
    return found


def _padded(v: Any, count: int) -> Any:
    missing = max(count - len(v), 0)
    return xp.concatenate([v, as_tensor(np.zeros(missing, v.dtype))], 0)


# --- windows and waves ----------------------------------------------------------------------------


def _extended(count: int, sym: bool) -> int:
    """The length of a window before its last element is cut off."""
    if int(count) != count or count < 0:
        raise ValueError("Window length M must be a non-negative integer")
    return count if sym or count <= 1 else count + 1


@rule("scipy.signal.windows.general_cosine", tensors="a")
def _general_cosine(M: int, a: Any, sym: bool, **_: Any) -> Any:
    weights = as_double(a)
    if M <= 1:
        return as_tensor(np.ones(M)) + 0.0 * xp.sum(weights)
    angle = np.linspace(-np.pi, np.pi, _extended(M, sym))[:M]
    cosines = np.cos(np.arange(len(weights))[:, None] * angle)
    return xp.sum(xp.expand_dims(weights, 1) * cosines, 0)


@rule("scipy.signal.windows.general_hamming", tensors="alpha")
def _general_hamming(M: int, alpha: Any, sym: bool, **_: Any) -> Any:
    alpha = as_double(alpha)
    return _general_cosine(M, xp.stack([alpha, 1.0 - alpha]), sym)


@rule("scipy.signal.windows.tukey", tensors="alpha")
def _tukey(M: int, alpha: Any, sym: bool, **_: Any) -> Any:
    alpha = as_double(alpha)
    if M <= 1:
        return as_tensor(np.ones(M)) + 0.0 * alpha
    last = _extended(M, sym) - 1
    place = np.arange(M)
    inward = np.minimum(place, last - place) / last  # from the nearer end
    if _is_any(alpha <= 0.0):
        return as_tensor(np.ones(M)) + 0.0 * alpha
    width = xp.minimum(alpha, as_tensor(1.0))
    ramp = 0.5 * (1.0 - xp.cos(2.0 * np.pi * inward / width))
    return xp.where(inward < width / 2.0, ramp, 1.0 + 0.0 * ramp)


@rule("scipy.signal.sawtooth", tensors="t width")
def _sawtooth(t: Any, width: Any) -> Any:
    t, width = as_double(t), as_double(width)
    phase = t - 2 * np.pi * xp.floor(t.detach() / (2 * np.pi))
    is_rising = phase < 2 * np.pi * width
    has_rise, has_fall = width > 0.0, width < 1.0
    rise = phase / (np.pi * xp.where(has_rise, width, 1.0 + 0.0 * width)) - 1.0
    down = np.pi * xp.where(has_fall, 1.0 - width, 1.0 + 0.0 * width)
    found = xp.where(is_rising, rise, (np.pi * (width + 1.0) - phase) / down)
    is_wrong = (width < 0.0) | (width > 1.0)
    return xp.where(is_wrong, as_tensor(np.full(found.shape, np.nan)), found)


@rule("scipy.signal.chirp", tensors="t f0 t1 f1 phi")
def _chirp(
    t: Any,
    f0: Any,
    t1: Any,
    f1: Any,
    method: str,
    phi: Any,
    vertex_zero: bool,
    complex: bool = False,
) -> Any:
    t, f0, t1, f1 = (as_double(v) for v in (t, f0, t1, f1))
    if method in ("linear", "lin", "li"):
        cycles = f0 * t + 0.5 * (f1 - f0) / t1 * t * t
    elif method in ("quadratic", "quad", "q"):
        beta = (f1 - f0) / t1**2
        if vertex_zero:
            cycles = f0 * t + beta * t**3 / 3.0
        else:
            cycles = f1 * t + beta * ((t1 - t) ** 3 - t1**3) / 3.0
    elif method in ("logarithmic", "log", "lo"):
        if _is_any(f0 * f1 <= 0.0):
            raise ValueError("For a logarithmic chirp, f0 and f1 must be nonzero and of one sign.")
        beta = t1 / xp.log(f1 / f0)
        cycles = beta * f0 * ((f1 / f0) ** (t / t1) - 1.0)
    elif method in ("hyperbolic", "hyp"):
        singular = -f1 * t1 / (f0 - f1)
        cycles = -singular * f0 * xp.log(xp.abs(1.0 - t / singular))
    else:
        raise ValueError(
            "method must be 'linear', 'quadratic', 'logarithmic', or 'hyperbolic', but a value of "
            f"{method!r} was given."
        )
    phase = 2.0 * np.pi * cycles + as_tensor(phi) * (np.pi / 180.0)
    return xp.cos(phase) + 1j * xp.sin(phase) if complex else xp.cos(phase)
