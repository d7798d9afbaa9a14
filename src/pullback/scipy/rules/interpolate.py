"""Rules of scipy.interpolate."""

from __future__ import annotations

from pullback.scipy.rules import (
    interpolate_bspline,
    interpolate_fitpack,
    interpolate_grid,
    interpolate_ppoly,
    interpolate_scattered,
)

__all__ = [
    "interpolate_bspline",
    "interpolate_fitpack",
    "interpolate_grid",
    "interpolate_ppoly",
    "interpolate_scattered",
]
