"""Samples of scipy.fft: every transform by its input, with the options that change the map."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from pullback import scipy as sp
from tests.scipy.sample import Sample

__all__ = ["SAMPLES"]

RNG = np.random.default_rng(11)
X = RNG.standard_normal((3, 5))
COMPLEX = X + 1j * RNG.standard_normal((3, 5))
OPTIONS: dict[str, dict[str, Any]] = {
    "": {},
    "n longer": {"n": 7},
    "n shorter axis=0": {"n": 2, "axis": 0},
    "norm=ortho": {"norm": "ortho"},
    "norm=forward": {"norm": "forward"},
    "s": {"s": (4, 6), "axes": (0, 1)},
}
ONE_AXIS = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
AXES = ("fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn")
AXES += ("hfft2", "ihfft2", "hfftn", "ihfftn")
SAMPLES: dict[str, Sample] = {}


def add(name: str, option: str, x: Any = X, **options: Any) -> None:
    """Adds one line."""
    call = functools.partial(getattr(sp.fft, name), **options)
    SAMPLES[" | ".join(part for part in (name, "x", option) if part)] = Sample(call, x)


for _name in ONE_AXIS:
    for _option in ("", "n longer", "n shorter axis=0", "norm=ortho", "norm=forward"):
        add(_name, _option, **OPTIONS[_option])
for _name in AXES:
    for _option in ("", "norm=ortho", "s"):
        add(_name, _option, **OPTIONS[_option])
for _name in ("fft", "ifft", "irfft", "hfft", "fftn", "irfftn"):
    add(_name, "complex", COMPLEX)
for _kind in ("dct", "idct", "dst", "idst"):
    for _name in (_kind, f"{_kind}n"):
        for _type in (1, 2, 3, 4):
            for _norm in ("", "ortho", "forward"):
                _text = f"type={_type}" + (f" norm={_norm}" if _norm else "")
                add(_name, _text, type=_type, norm=_norm or None)
    for _option in ("n longer", "n shorter axis=0"):
        add(_kind, _option, **OPTIONS[_option])
    add(f"{_kind}n", "s", **OPTIONS["s"])
    for _type in (1, 2, 3, 4):
        for _norm in ("backward", "ortho", "forward"):
            _text = f"type={_type} norm={_norm} orthogonalize={_norm != 'ortho'}"
            add(_kind, _text, type=_type, norm=_norm, orthogonalize=_norm != "ortho")
    add(_kind, "complex", COMPLEX)
    add(_kind, "workers", workers=2)
    add(f"{_kind}n", "axes", axes=(0,))
for _name in ("fft", "rfft", "hfftn"):
    add(_name, "workers", workers=2)
add("hfft", "n odd complex", COMPLEX, n=7)
add("hfft", "n even complex norm=ortho", COMPLEX, n=8, norm="ortho")
add("hfftn", "s complex", COMPLEX, s=(4, 7))
add("rfftn", "axes", axes=(1, 0))
for _name in ("fht", "ifht"):
    for _options in ({}, {"offset": 0.1}, {"bias": 0.2, "offset": 0.1}):
        add(_name, " ".join(_options), dln=0.1, mu=0.5, **_options)
for _name in ("fftshift", "ifftshift"):
    add(_name, "")
    add(_name, "axes", axes=(1,))
