"""Rules of ``scipy.signal``; its parts declare them."""

from __future__ import annotations

from pullback.scipy.registry import recorded
from pullback.scipy.rules import (
    ndimage_ranks,
    signal_convolve,
    signal_design,
    signal_filter,
    signal_response,
    signal_spectral,
)

__all__ = [
    "ndimage_ranks",
    "signal_convolve",
    "signal_design",
    "signal_filter",
    "signal_response",
    "signal_spectral",
]

# SciPy's own code runs on tensors in these arguments only.
for _name, _tensors in {
    "czt": "x",
    "decimate": "x",
    "firls": "desired weight",
    "firwin2": "gain",
    "gausspulse": "t fc bw bwr",
    "get_window": "window",
    "residue": "b",
    "residuez": "b",
    "windows.chebwin": "at",
    "windows.exponential": "center tau",
    "windows.get_window": "window",
    "zoom_fft": "x",
}.items():
    recorded(f"scipy.signal.{_name}", tensors=_tensors)
