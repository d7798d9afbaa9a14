"""Calls of SciPy's functions, by module and name, for `scripts/scipy_matrix.py`."""

from __future__ import annotations

from . import signals, spatial, special, statistics
from .inputs import Call

__all__ = ["TABLES", "Call"]

TABLES: dict[str, dict[str, Call]] = {
    "cluster.hierarchy": spatial.HIERARCHY,
    "cluster.vq": spatial.VQ,
    "constants": special.CONSTANTS,
    "differentiate": special.DIFFERENTIATE,
    "fft": signals.FFT,
    "integrate": special.INTEGRATE,
    "interpolate": spatial.INTERPOLATE,
    "linalg": special.LINALG,
    "ndimage": spatial.NDIMAGE,
    "optimize": special.OPTIMIZE,
    "signal": signals.SIGNAL_CALLS,
    "signal.windows": signals.WINDOWS,
    "spatial.transform": spatial.TRANSFORM,
    "special": special.SPECIAL,
    "stats": statistics.STATS,
}
