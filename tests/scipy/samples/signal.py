"""Samples of scipy.signal: convolutions, filters, their design, spectra, windows and waves."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from pullback import scipy as sp
from tests.scipy.sample import Sample

__all__ = ["SAMPLES"]

RNG = np.random.default_rng(5)
X = RNG.standard_normal(9)
SIGNALS = RNG.standard_normal((2, 24))
LONG = RNG.standard_normal((2, 48))
OTHERS = RNG.standard_normal((2, 20))
H = RNG.standard_normal(4)
IMAGE, KERNEL = RNG.standard_normal((5, 6)), RNG.standard_normal((3, 2))
B, A = np.array([0.3, 0.5, 0.2]), np.array([1.1, -0.6, 0.25])
ANALOG = np.array([1.0, 1.4, 0.8])
STATES = RNG.standard_normal((2, 2))
SECTIONS = np.array([[0.3, 0.5, 0.2, -0.6, 0.25], [0.4, 0.1, 0.2, -0.3, 0.1]])  # without the ones
SOS = np.insert(SECTIONS, 3, 1.0, axis=1)
TIMES = np.linspace(0.1, 1.9, 7)
NO_VMAP: dict[str, Any] = {"vmap": False}
NEAR: dict[str, Any] = {"spread": 1e-3, "step": 1e-4, "rtol": 1e-5}
JUMPS: dict[str, Any] = {"spread": 0.0, "step": 1e-5, "order": 1}
NEWER = {
    *("bode", "envelope", "firls", "freqresp", "freqs_zpk", "freqz_sos", "freqz_zpk"),
    *("gauss_spline", "hilbert2", "lfiltic", "lombscargle", "normalize", "windows.chebwin"),
    *("chirp | phi", "resample_poly | window"),
}
SAMPLES: dict[str, Sample] = {}


def add(
    line: str,
    x: Any,
    *args: Any,
    place: int = 0,
    settings: dict[str, Any] | None = None,
    **options: Any,
) -> None:
    """Adds a line for the argument at a place of the call; `args` are the others."""
    name = line.split(" | ")[0]
    module, _, short = name.rpartition(".")

    def call(v: Any) -> Any:
        function = getattr(sp.signal.windows if module else sp.signal, short)
        return function(*args[:place], v, *args[place:], **options)

    SAMPLES[line] = Sample(call, np.asarray(x), **(settings or {}))


def join(*parts: str) -> str:
    """A line of its parts that are not empty."""
    return " | ".join(part for part in parts if part)


# --- convolutions ---------------------------------------------------------------------------------

for _mode in ("full", "same", "valid"):
    for _name in ("convolve", "correlate"):
        for _method in ("auto", "direct", "fft"):
            _option, _options = f"mode={_mode} method={_method}", (_mode, _method)
            add(f"{_name} | in1 | {_option}", X, H, *_options)
            add(f"{_name} | in2 | {_option}", H, X, *_options, place=1)
        add(f"{_name} | in1 | image mode={_mode}", IMAGE, KERNEL, _mode)
        add(f"{_name} | in2 | image mode={_mode}", KERNEL, IMAGE, _mode, place=1)
        add(f"{_name} | in1 | short mode={_mode}", H, X, _mode)
        add(f"{_name} | in2 | complex mode={_mode}", H + 0.5j, X + 0.3j, _mode, place=1)
        for _boundary in ("fill", "wrap", "symm"):
            _option, _options = f"mode={_mode} boundary={_boundary}", (_mode, _boundary, 0.7)
            add(f"{_name}2d | in1 | {_option}", IMAGE, KERNEL, *_options)
            add(f"{_name}2d | in2 | {_option}", KERNEL, IMAGE, *_options, place=1)
    for _name in ("fftconvolve", "oaconvolve"):
        add(f"{_name} | in1 | mode={_mode}", X, H, _mode)
        add(f"{_name} | in2 | mode={_mode}", H, X, _mode, place=1)
        add(f"{_name} | in1 | axes mode={_mode}", IMAGE, KERNEL[:1], _mode, axes=1)
        add(f"{_name} | in2 | axes mode={_mode}", KERNEL[:1], IMAGE, _mode, axes=1, place=1)
        add(f"{_name} | in1 | complex mode={_mode}", X + 0.3j, H + 0.5j, _mode)
add("correlate2d | in1 | complex", IMAGE + 0.5j, KERNEL + 0.2j)
add("convolve2d | fillvalue", 0.4, IMAGE, KERNEL, "same", "fill", place=4)
for _up, _down in ((1, 1), (3, 1), (1, 3), (3, 2), (2, 5)):
    add(f"upfirdn | x | up={_up} down={_down}", SIGNALS, H, _up, _down, place=1)
    add(f"upfirdn | h | up={_up} down={_down}", H, SIGNALS, _up, _down)
for _mode in ("constant", "edge", "reflect", "symmetric", "wrap"):
    _options = {"mode": _mode, **({"cval": 0.4} if _mode == "constant" else {})}
    add(f"upfirdn | x | mode={_mode}", SIGNALS, H, 3, 2, place=1, **_options)
add("upfirdn | x | axis=0", SIGNALS.T, H, 3, 2, 0, place=1)

# --- filters --------------------------------------------------------------------------------------

for _kind, _b, _a in (("", B, A), ("no poles", B, A[:1]), ("no zeros", B[:1], A)):
    add(join("lfilter | b", _kind), _b, _a, SIGNALS)
    add(join("lfilter | a", _kind), _a, _b, SIGNALS, place=1)
    add(join("lfilter | x", _kind), SIGNALS, _b, _a, place=2)
    for _argument, _value, _others, _place in (
        ("b", _b, (_a, SIGNALS, -1, STATES), 0),
        ("a", _a, (_b, SIGNALS, -1, STATES), 1),
        ("x", SIGNALS, (_b, _a, -1, STATES), 2),
        ("zi", STATES, (_b, _a, SIGNALS, -1), 4),
    ):
        add(join(f"lfilter | {_argument}", f"zi {_kind}".strip()), _value, *_others, place=_place)
add("lfilter | x | axis=0", SIGNALS.T, B, A, 0, place=2)
add("lfilter | zi | broadcast", STATES[:1], B, A, SIGNALS, -1, place=4)
add("lfilter | x | short", SIGNALS[:, :1], B, A, -1, STATES, place=2)
add("lfilter | a | long b", A, np.r_[B, B], SIGNALS, place=1)
add("lfilter | x | complex", SIGNALS + 0.3j, B + 0.1j, A, place=2)
add("lfilter | a | complex", A + 0.1j, B, SIGNALS, place=1)
add("lfilter | b | complex", B + 0.1j, A + 0.1j, SIGNALS)
add("lfilter_zi | b", B, A)
add("lfilter_zi | a", A, B, place=1)
add("lfiltic | b", B, A, [0.4, 0.3], [0.1, 0.2])
add("lfiltic | a", A, B, [0.4, 0.3], [0.1, 0.2], place=1)
add("lfiltic | y", [0.4, 0.3], B, A, place=2)
add("lfiltic | x", [0.4, 0.3], B, A, [0.1, 0.2], place=3)
for _padtype in ("odd", "even", "constant", None):
    add(f"filtfilt | x | padtype={_padtype}", LONG, B, A, place=2, padtype=_padtype)
    add(f"sosfiltfilt | x | padtype={_padtype}", LONG, SOS, place=1, padtype=_padtype)
add("filtfilt | x | padlen axis=0", LONG.T, B, A, 0, place=2, padlen=5)
add("filtfilt | b", B, A, LONG)
add("filtfilt | a", A, B, LONG, place=1)


def by_sections(line: str, name: str, *args: Any, **options: Any) -> None:
    """Adds a line by second-order sections, whose fourth coefficient has to stay 1."""

    def call(v: Any) -> Any:
        sos = np.concatenate([v[:, :3], v[:, :1] * 0.0 + 1.0, v[:, 3:]], 1)
        return getattr(sp.signal, name)(sos, *args, **options)

    SAMPLES[line] = Sample(call, SECTIONS, vmap=name != "sos2tf")


by_sections("sosfilt | sos", "sosfilt", SIGNALS)
by_sections("sosfilt | sos | zi", "sosfilt", SIGNALS, zi=RNG.standard_normal((2, 2, 2)))
by_sections("sosfilt_zi | sos", "sosfilt_zi")
by_sections("sosfreqz | sos", "sosfreqz", 5)
by_sections("freqz_sos | sos", "freqz_sos", 5)
by_sections("sos2tf | sos", "sos2tf")
add("sosfilt | x", SIGNALS, SOS, place=1)
add("sosfilt | x | axis=0", SIGNALS.T, SOS, 0, place=1)
add("sosfilt | x | zi", SIGNALS, SOS, -1, RNG.standard_normal((2, 2, 2)), place=1)
add("sosfilt | zi", RNG.standard_normal((2, 2, 2)), SOS, SIGNALS, -1, place=3)
for _mode in ("interp", "mirror", "constant", "nearest", "wrap"):
    add(f"savgol_filter | x | mode={_mode}", SIGNALS, 7, 3, mode=_mode, cval=0.4)
add("savgol_filter | x | deriv", SIGNALS, 7, 3, deriv=1, delta=0.4)
add("savgol_filter | x | axis=0", SIGNALS.T, 5, 2, axis=0)
add("savgol_filter | x | even window", SIGNALS, 6, 2, mode="nearest")
for _type in ("linear", "constant"):
    add(f"detrend | data | type={_type}", SIGNALS, type=_type)
add("detrend | data | bp", SIGNALS, bp=[7, 15])
add("detrend | data | axis=0", SIGNALS.T, axis=0)
for _count in (30, 31, 60, 61):
    add(f"resample | x | num={_count}", LONG.T, _count)
add("resample | x | window", LONG.T, 30, window="hamming")
add("resample | x | axis=1", LONG, 30, axis=1)
for _count in (30, 31, 48, 60, 61):
    add(f"resample | x | complex num={_count}", LONG.T + 0.3j * LONG[::-1].T, _count)
    add(f"resample | x | odd num={_count}", LONG[:, :47].T, _count)
    _spectrum = LONG.T + 0.3j * LONG[::-1].T
    add(f"resample | x | domain=freq num={_count}", _spectrum, _count, domain="freq")
add("resample | x | t", LONG.T, 30, np.arange(48.0))
add("resample | window", np.hanning(50)[1:-1], LONG.T, 30, None, 0, place=4)
for _padtype in ("constant", "edge", "symmetric", "wrap"):
    add(f"resample_poly | x | padtype={_padtype}", LONG, 3, 2, padtype=_padtype)
add("resample_poly | x | axis=0", LONG.T, 2, 3, axis=0)
add("resample_poly | window", np.hanning(11)[1:-1], LONG, 3, 2, 0, place=4)
add("decimate | x", LONG, 2)
add("decimate | x | ftype=fir", LONG, 2, ftype="fir")
add("decimate | x | zero_phase=False", LONG, 2, zero_phase=False)
add("decimate | x | ftype=fir zero_phase=False", LONG, 2, ftype="fir", zero_phase=False)
add("hilbert | x", SIGNALS)
add("hilbert | x | N", SIGNALS, 30)
add("hilbert2 | x", IMAGE)
add("envelope | z", LONG[0] + 3.0, (1, 10))
add("deconvolve | signal", X, B)
add("deconvolve | divisor", [1.3, 0.2, 0.1], X, place=1, settings=NEAR)
add("wiener | im", X, 3)
add("medfilt | volume", SIGNALS, (1, 5), settings=JUMPS)
add("medfilt2d | input", IMAGE, 3, settings=JUMPS)
add("order_filter | a", IMAGE + 0.3, np.array([[1, 1, 0]]), 1, settings=JUMPS)

# --- spectra --------------------------------------------------------------------------------------

SPECTRAL: dict[str, dict[str, Any]] = {
    "": {},
    "detrend=linear": {"detrend": "linear"},
    "detrend=False": {"detrend": False},
    "noverlap": {"noverlap": 3},
    "nfft": {"nfft": 11},
    "return_onesided=False": {"return_onesided": False},
    "window=kaiser": {"window": ("kaiser", 3.0)},
    "window array": {"window": np.arange(1.0, 9.0)},
    "axis=0": {"axis": 0},
}
for _option, _options in SPECTRAL.items():
    _x, _y = (SIGNALS.T, OTHERS.T) if "axis" in _options else (SIGNALS, OTHERS)
    _options = {"fs": 3.0, "nperseg": 8, **_options}
    for _name in ("welch", "spectrogram", "stft"):
        add(join(f"{_name} | x", _option), _x, **_options)
    add(join("csd | x", _option), _x, _y, **_options)
    add(join("csd | y", _option), _y, _x, place=1, **_options)
for _name in ("welch", "spectrogram"):
    add(f"{_name} | x | scaling=spectrum", SIGNALS, nperseg=8, scaling="spectrum")
    add(f"{_name} | window", np.arange(1.0, 9.0), SIGNALS, 1.0, place=2)
    add(f"{_name} | x | callable detrend", SIGNALS, nperseg=8, detrend=lambda v: v * v)
add("welch | x | complex", SIGNALS + 1j * SIGNALS[::-1], nperseg=8, return_onesided=False)
add("welch | x | average=median", SIGNALS, nperseg=8, average="median", settings=NEAR)
add("csd | x | average=median", SIGNALS, OTHERS, nperseg=8, average="median", settings=NEAR)
add("csd | window", np.arange(1.0, 9.0), SIGNALS, OTHERS, 1.0, place=3)
for _boundary in ("even", "odd", "constant", None):
    add(f"stft | x | boundary={_boundary}", SIGNALS, nperseg=7, boundary=_boundary)
add("stft | x | scaling=psd", SIGNALS, nperseg=8, scaling="psd")
add("stft | x | padded=False", SIGNALS, nperseg=8, padded=False)
add("stft | window", np.arange(1.0, 9.0), SIGNALS, 1.0, place=2, nperseg=8)
for _mode in ("complex", "magnitude", "angle"):
    _options = {"nperseg": 8, "mode": _mode, "detrend": False}
    add(f"spectrogram | x | mode={_mode}", SIGNALS, settings=NEAR, **_options)
add("periodogram | x", SIGNALS, 3.0)
add("periodogram | x | window", SIGNALS, 3.0, "hann")
add("periodogram | x | nfft longer", SIGNALS, 3.0, nfft=30)
add("periodogram | x | nfft shorter axis=0", SIGNALS.T, 3.0, nfft=10, axis=0)
add("periodogram | x | scaling=spectrum", SIGNALS, scaling="spectrum")
add("coherence | x", SIGNALS, SIGNALS[::-1].copy(), 3.0, nperseg=8)
add("coherence | y", SIGNALS[::-1].copy(), SIGNALS, 3.0, nperseg=8, place=1)
_Z = sp.signal.stft(SIGNALS, nperseg=8)[2]
add("istft | Zxx", _Z, 3.0)
add("istft | Zxx | scaling=psd", _Z, 3.0, scaling="psd")
add("istft | Zxx | axes", np.moveaxis(_Z, (-1, -2), (0, 1)), time_axis=0, freq_axis=1)
add("istft | Zxx | noverlap", sp.signal.stft(SIGNALS, nperseg=8, noverlap=6)[2], noverlap=6)
add("istft | window", np.arange(1.0, 9.0), _Z, 3.0, place=2)
add("lombscargle | y", np.sin(TIMES), TIMES, [0.7, 1.3], place=1, settings=NO_VMAP)
add("czt | x", SIGNALS, 8)
add("zoom_fft | x", SIGNALS, [0.1, 0.4], 8)
add("vectorstrength | events", TIMES, 1.3)

# --- design ---------------------------------------------------------------------------------------

for _output in ("ba", "zpk", "sos"):
    _settings = NO_VMAP if _output == "sos" else {}
    for _name, _ripples in (
        ("butter", ()),
        ("bessel", ()),
        ("cheby1", (1.0,)),
        ("cheby2", (20.0,)),
    ):
        for _band in ("lowpass", "highpass", "bandpass", "bandstop"):
            _order, _wn = (2, [0.2, 0.5]) if _band.startswith("band") else (3, 0.3)
            if (_band, _output) == ("highpass", "sos"):
                _order = 2  # SciPy's order of three equal zeros is not stable
            add(
                f"{_name} | Wn | {_band} output={_output}",
                *(_wn, _order, *_ripples, _band),
                place=1 + len(_ripples),
                output=_output,
                settings=_settings,
            )
    add(
        f"ellip | Wn | output={_output}",
        0.3,
        3,
        1.0,
        20.0,
        place=3,
        output=_output,
        settings=_settings,
    )
    add(
        f"butter | Wn | fs output={_output}",
        1.3,
        3,
        place=1,
        fs=8.0,
        output=_output,
        settings=_settings,
    )
    add(
        f"butter | Wn | analog output={_output}",
        *(1.3, 3),
        place=1,
        analog=True,
        output=_output,
        settings=_settings,
    )
    for _name, _value in (("cheby1", 1.0), ("cheby2", 20.0)):
        _argument = {"cheby1": "rp", "cheby2": "rs"}[_name]
        for _order in (3, 4):
            _line = f"{_name} | {_argument} | N={_order} output={_output}"
            add(_line, _value, _order, 0.3, place=1, output=_output, settings=_settings)
    add(
        f"iirfilter | Wn | output={_output}",
        *([0.2, 0.5], 2),
        place=1,
        output=_output,
        settings=_settings,
    )
for _name in ("iirnotch", "iirpeak"):
    add(f"{_name} | w0", 0.3, 20.0)
    add(f"{_name} | Q", 20.0, 0.3, place=1)
    add(f"{_name} | w0 | fs", 1.3, 20.0, fs=8.0)
_ZEROS, _POLES = np.array([-0.5 + 0.2j, -0.5 - 0.2j]), np.array([-0.3 + 0.4j, -0.3 - 0.4j, -0.6])
_DOUBLE: dict[str, Any] = {"float32": 0.0}  # SciPy makes numbers of these
for _name in ("lp2lp_zpk", "lp2hp_zpk", "lp2bp_zpk", "lp2bs_zpk", "bilinear_zpk"):
    add(f"{_name} | p", _POLES[:2], _ZEROS[:1], 0.7, 1.5, place=1, settings={**NEAR, **_DOUBLE})
    if _name.startswith("lp"):
        add(f"{_name} | wo", 1.5, _ZEROS, _POLES, 0.7, place=3, settings=_DOUBLE)
for _name in ("lp2bp_zpk", "lp2bs_zpk"):
    add(f"{_name} | bw", 0.4, _ZEROS, _POLES, 0.7, 1.5, place=4, settings=_DOUBLE)
for _name in ("lp2lp", "lp2hp"):
    add(f"{_name} | a", ANALOG, B, 1.3, place=1, settings=NO_VMAP)
for _name, _options in (("bilinear", (0.8,)), ("lp2bp", (1.3, 0.4)), ("lp2bs", (1.3, 0.4))):
    add(f"{_name} | b", B, ANALOG, *_options)
    add(f"{_name} | a", ANALOG, B, *_options, place=1)
    add(f"{_name} | b | shorter", B[:2], ANALOG, *_options)
add("normalize | b", B, ANALOG, settings=NO_VMAP)
add("tf2zpk | a", ANALOG, B, place=1, settings=NO_VMAP)
add("tf2sos | a", ANALOG, B, place=1, settings=NO_VMAP)
add("zpk2tf | z", _ZEROS.real * [1.0, 2.0], _POLES, 0.7)
add("zpk2tf | k", 0.7, _ZEROS, _POLES, place=2)
add("zpk2sos | z", [-0.5, 0.3], [0.2, 0.4 + 0.1j, 0.4 - 0.1j], 0.7, settings=NO_VMAP)
add("zpk2sos | k", 0.7, _ZEROS, _POLES, place=2, settings=NO_VMAP)
add("residue | b", [1.0, 2.0], ANALOG, settings=NO_VMAP)
add("residuez | b", [1.0, 2.0], ANALOG, settings=NO_VMAP)
add("freqz | b", B, A, 5)
add("freqz | a", A, B, 5, place=1)
add("freqz | worN", TIMES, B, A, place=2)
add("freqz | b | whole fs", B, A, 5, True, fs=4.0)
add("freqz_zpk | z", [0.2, 0.3], [0.2], 1.0, 5, settings=NO_VMAP)
add("freqs | b", B, ANALOG, TIMES)
add("freqs | a", ANALOG, B, TIMES, place=1)
add("freqs_zpk | z", [0.2, 0.3], [-0.2], 1.0, TIMES, settings=NO_VMAP)
SAMPLES["group_delay | b"] = Sample(lambda v: sp.signal.group_delay((v, A), TIMES), B, vmap=False)
SAMPLES["bode | den"] = Sample(lambda v: sp.signal.bode((B[:2], v), TIMES)[1], ANALOG, vmap=False)
SAMPLES["freqresp | den"] = Sample(
    lambda v: sp.signal.freqresp((B[:2], v), TIMES)[1], ANALOG, vmap=False
)
add("firwin | cutoff", 0.3, 9, place=1, settings=NO_VMAP)
add("firwin2 | gain", [1.0, 0.8, 0.1], 9, [0.0, 0.5, 1.0], place=2)
add("firls | desired", [1.0, 1.0, 0.1, 0.1], 9, [0, 0.4, 0.5, 1], place=2, settings=NO_VMAP)

# --- windows and waves ----------------------------------------------------------------------------

_WINDOWS: dict[str, tuple[Any, ...]] = {
    "gaussian | std": (1.5,),
    "general_gaussian | p": (1.5, 2.0),
    "general_gaussian | sig": (2.0, 1.5),
    "kaiser | beta": (3.0,),
    "tukey | alpha": (0.4,),
    "general_hamming | alpha": (0.6,),
    "general_cosine | a": ([0.5, 0.3, 0.2],),
    "exponential | tau": (1.5, None),
    "chebwin | at": (60.0,),
}
for _line, (_value, *_rest) in _WINDOWS.items():
    _settings = NO_VMAP if _line.startswith("chebwin") else {}
    for _sym in (True, False):
        _full = f"windows.{_line} | sym={_sym}"
        _place = 2 if "sig" in _line or "tau" in _line else 1
        add(_full, _value, 8, *_rest, place=_place, sym=_sym, settings=_settings)
add("windows.kaiser_bessel_derived | beta", 3.0, 8, place=1)
for _name, _value in (("kaiser", 3.0), ("gaussian", 1.5), ("tukey", 0.4), ("general_hamming", 0.6)):
    SAMPLES[f"get_window | {_name}"] = Sample(
        lambda v, name=_name: sp.signal.get_window((name, v), 8), np.asarray(_value)
    )
for _method in ("linear", "quadratic", "logarithmic", "hyperbolic"):
    add(f"chirp | t | method={_method}", TIMES, 0.3, 2.0, 1.1, _method)
    add(f"chirp | f0 | method={_method}", 0.3, TIMES, 2.0, 1.1, _method, place=1)
    add(f"chirp | f1 | method={_method}", 1.1, TIMES, 0.3, 2.0, _method, place=3)
add("chirp | t1", 2.0, TIMES, 0.3, 1.1, place=2)
add("chirp | phi", 20.0, TIMES, 0.3, 2.0, 1.1, "linear", place=5)
add("chirp | t | vertex_zero=False", TIMES, 0.3, 2.0, 1.1, "quadratic", vertex_zero=False)
add("gausspulse | t", TIMES, 2.0)
add("gausspulse | fc", 2.0, TIMES, place=1, settings=NO_VMAP)
add("sawtooth | t", TIMES, 0.4)
add("sawtooth | width", 0.4, TIMES, place=1)
add("sweep_poly | t", TIMES, [0.2, 1.0])
add("gauss_spline | x", TIMES, 3)

# SciPy 1.14 takes numbers out of tensors here, does not have the function, or gives another result.
for _line, _sample in SAMPLES.items():
    _name = _line.split(" | ")[0]
    if _name in NEWER or _line in NEWER:
        SAMPLES[_line] = dataclasses.replace(_sample, since=(1, 17))
