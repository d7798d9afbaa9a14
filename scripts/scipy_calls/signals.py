"""Calls of `scipy.signal`, `scipy.signal.windows` and `scipy.fft`."""

from __future__ import annotations

import numpy as np

from .inputs import IMAGE, MIDDLE, POSITIVE, REAL, SIGNAL, Call, each, namespace

__all__ = ["FFT", "SIGNAL_CALLS", "WINDOWS"]

_B, _A = np.array([0.3, 0.5, 0.2]), np.array([1.0, -0.6, 0.25])
_ANALOG = np.array([1.0, 1.4, 1.0])
_ZEROS, _POLES = np.array([-0.5 + 0.2j, -0.5 - 0.2j]), np.array([-0.3 + 0.4j, -0.3 - 0.4j])
_SECTIONS = np.array([[0.3, 0.5, 0.2, 1.0, -0.6, 0.25], [0.4, 0.1, 0.2, 1.0, -0.3, 0.1]])
_PICTURE = np.outer(SIGNAL[:32], SIGNAL[8:40])
_TIMES = np.linspace(0.0, 3.0, 10)
_BANDS = np.array([0.0, 0.4, 0.6, 1.0])
_SYMMETRIC = np.array([0.1, 0.3, 1.0, 0.3, 0.1])


def _sections(s):
    """Each must have a leading one in its denominator."""
    return namespace(s).concat([s[:, :3], s[:, 3:4] * 0 + 1, s[:, 4:]], axis=1)


def _powers(zpk):
    """What does not depend on the order of the roots."""
    z, p, k = zpk
    return [(z**n).sum() for n in (1, 2)], [(p**n).sum() for n in (1, 2)], k


def _state(f, a):
    xp = namespace(a)
    return f(a[:3, :3], a[:3, 3:5], xp.asarray([-0.5, -1.0, -1.5]), method="KNV0").gain_matrix


_FILTERS = "lfilter filtfilt"
_ORDERS = "buttord cheb1ord cheb2ord ellipord"
_FREQUENCY = "lp2lp lp2hp"
SIGNAL_CALLS: dict[str, Call] = {
    **each("abcd_normalize", lambda f, a: f(a[:3, :3], a[:3, 3:5], a[:2, :3], a[:2, 3:5]), IMAGE),
    **each("bilinear", lambda f, b, a: f(b, a, 2.0), _B, _ANALOG),
    **each("bilinear_zpk", lambda f, z, p: f(z, p, 0.7, 2.0), _ZEROS, _POLES),
    **each("lp2lp_zpk lp2hp_zpk", lambda f, z, p: f(z, p, 0.7, 1.5), _ZEROS, _POLES),
    **each("lp2bp_zpk lp2bs_zpk", lambda f, z, p: f(z, p, 0.7, 1.5, 0.4), _ZEROS, _POLES),
    **each(_FREQUENCY, lambda f, b, a: f(b, a, 1.5), _B, _ANALOG),
    **each("lp2bp lp2bs", lambda f, b, a: f(b, a, 1.5, 0.4), _B, _ANALOG),
    **each("normalize", lambda f, b, a: f(b, a), _B, _ANALOG),
    **each("buttap besselap", lambda f, x: f(3, xp=namespace(x)), REAL),
    **each("cheb1ap cheb2ap", lambda f, x: f(3, 1.0, xp=namespace(x)), REAL),
    **each("ellipap", lambda f, x: f(3, 1.0, 30.0, xp=namespace(x)), REAL),
    **each("butter bessel", lambda f, w: f(3, w[0]), MIDDLE),
    **each("cheby1 cheby2", lambda f, w: f(3, 1.5, w[0]), MIDDLE),
    **each("ellip", lambda f, w: f(3, 1.0, 30.0, w[0]), MIDDLE),
    **each("iirfilter", lambda f, w: f(3, w[:2]), MIDDLE),
    **each("iirdesign", lambda f, w: f(w[0], w[2], 1.0, 30.0), MIDDLE),
    **each(_ORDERS, lambda f, w: f(w[0], w[2], 1.0, 30.0), MIDDLE),
    **each("iirnotch iirpeak", lambda f, w: f(w[0], 20.0, xp=namespace(w)), MIDDLE),
    **each("iircomb", lambda f, w: f(0.25, 20.0, xp=namespace(w)), MIDDLE),
    **each("gammatone", lambda f, w: f(0.3, "fir", xp=namespace(w)), MIDDLE),
    **each("bode", lambda f, b, a, w: f((b, a), w), _B, _ANALOG, POSITIVE),
    **each("freqs", lambda f, b, a, w: f(b, a, w), _B, _ANALOG, POSITIVE),
    **each("freqs_zpk freqz_zpk", lambda f, z, p, w: f(z, p, 0.7, w), _ZEROS, _POLES, POSITIVE),
    **each("freqz", lambda f, b, a: f(b, a, 8), _B, _A),
    **each("freqz_sos sosfreqz", lambda f, s: f(_sections(s), 8), _SECTIONS),
    **each("group_delay", lambda f, b, a, w: f((b, a), w), _B, _A, MIDDLE),
    **each("impulse", lambda f, b, a, t: f((b, a), T=t), _B, _ANALOG, _TIMES),
    **each("place_poles", _state, IMAGE),
    **each(_FILTERS, lambda f, b, a, x: f(b, a, x), _B, _A, SIGNAL),
    **each("lfilter_zi tf2sos", lambda f, b, a: f(b, 1.1 * a), _B, _A),
    **each("tf2zpk", lambda f, b, a: _powers(f(b, a)), _B, _A),
    **each("lfiltic", lambda f, b, a, y: f(b, 1.1 * a, y), _B, _A, REAL[:2]),
    **each("sosfilt sosfiltfilt", lambda f, s, x: f(_sections(s), x), _SECTIONS, SIGNAL),
    **each("sosfilt_zi sos2tf", lambda f, s: f(_sections(s)), _SECTIONS),
    **each("sos2zpk", lambda f, s: _powers(f(_sections(s))), _SECTIONS),
    **each("zpk2tf zpk2sos", lambda f, z, p: f(z, p, 0.7), _ZEROS, _POLES),
    **each("convolve correlate fftconvolve oaconvolve", lambda f, x, h: f(x, h), SIGNAL, _B),
    **each("choose_conv_method", lambda f, x, h: f(x, h), SIGNAL, _B),
    **each("convolve2d correlate2d", lambda f, x, h: f(x, h), IMAGE, IMAGE[:3, :3]),
    **each("deconvolve", lambda f, x, h: f(x, h), SIGNAL, _A),
    **each("cspline1d qspline1d hilbert", lambda f, x: f(x), SIGNAL),
    **each("cspline1d_eval qspline1d_eval", lambda f, c, x: f(c, x + 3), SIGNAL, REAL),
    **each("hilbert2 wiener", lambda f, x: f(x), IMAGE),
    **each("cspline2d spline_filter", lambda f, x: f(x), _PICTURE),
    **each("detrend", lambda f, x: f(x), SIGNAL),
    **each("envelope", lambda f, x: f(x, (1, 8)), SIGNAL),
    **each("firls", lambda f, w, d: f(7, w, d[:4]), _BANDS, POSITIVE),
    **each("firwin", lambda f, w: f(7, w[0]), MIDDLE),
    **each("firwin2", lambda f, g: f(9, namespace(g).asarray([0.0, 0.5, 1.0]), g[:3]), POSITIVE),
    **each("remez", lambda f, d: f(7, namespace(d).asarray(_BANDS / 2), d[:2]), POSITIVE),
    **each("gauss_spline", lambda f, x: f(x, 3), REAL),
    **each("get_window", lambda f, x: f("hann", 8, xp=namespace(x)), REAL),
    **each("medfilt", lambda f, x: f(x, 3), SIGNAL),
    **each("medfilt2d", lambda f, x: f(x, 3), IMAGE),
    **each("minimum_phase", lambda f, h: f(h), _SYMMETRIC),
    **each("order_filter", lambda f, x: f(x, namespace(x).ones((3, 3)), 2), IMAGE),
    **each("resample", lambda f, x: f(x, 30), SIGNAL),
    **each("resample_poly", lambda f, x: f(x, 3, 2), SIGNAL),
    **each("savgol_coeffs", lambda f, x: f(7, 2, xp=namespace(x)), REAL),
    **each("savgol_filter", lambda f, x: f(x, 7, 2), SIGNAL),
    **each("upfirdn", lambda f, h, x: f(h, x, 2, 1), _B, SIGNAL),
    **each("vectorstrength", lambda f, t, p: f(t, p[0]), POSITIVE, POSITIVE),
}

_PLAIN = "boxcar triang parzen bohman blackman nuttall blackmanharris flattop bartlett barthann "
_PLAIN += "hamming cosine hann exponential tukey taylor lanczos"
WINDOWS: dict[str, Call] = {
    **each(_PLAIN, lambda f, x: f(8, xp=namespace(x)), REAL),
    **each("kaiser kaiser_bessel_derived", lambda f, b: f(8, b[2], xp=namespace(b)), POSITIVE),
    **each("gaussian", lambda f, s: f(8, s[2], xp=namespace(s)), POSITIVE),
    **each("general_gaussian", lambda f, s: f(8, s[0], s[2], xp=namespace(s)), POSITIVE),
    **each("general_cosine", lambda f, a: f(8, a), POSITIVE),
    **each("general_hamming", lambda f, a: f(8, a[0], xp=namespace(a)), MIDDLE),
    **each("chebwin", lambda f, x: f(8, 100.0, xp=namespace(x)), REAL),
    **each("get_window", lambda f, x: f("hann", 8, xp=namespace(x)), REAL),
}

_COMPLEX = SIGNAL[:8] + 1j * SIGNAL[8:16]
_PLANE = IMAGE[:4, :6] + 1j * IMAGE[3:7, 2:8]
FFT: dict[str, Call] = {
    **each("fft ifft", lambda f, x: f(x), _COMPLEX),
    **each("hfft irfft", lambda f, x: f(x), _COMPLEX[:5]),
    **each("rfft ihfft dct idct dst idst", lambda f, x: f(x), SIGNAL[:8]),
    **each("fft2 ifft2 fftn ifftn", lambda f, x: f(x), _PLANE),
    **each("hfft2 irfft2 hfftn irfftn", lambda f, x: f(x), _PLANE),
    **each("rfft2 rfftn ihfft2 ihfftn dctn idctn dstn idstn", lambda f, x: f(x), IMAGE),
    **each("fftfreq rfftfreq", lambda f, x: f(8, 0.5, xp=namespace(x)), REAL),
    **each("fftshift ifftshift", lambda f, x: f(x), SIGNAL[:8]),
    **each("fht ifht", lambda f, x: f(x, 0.1, 0.5), SIGNAL[:8]),
}
