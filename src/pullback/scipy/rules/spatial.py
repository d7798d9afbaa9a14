"""Rules of scipy.spatial."""

from __future__ import annotations

from pullback.scipy.rules import spatial_distance, spatial_rotation

__all__ = ["spatial_distance", "spatial_rotation"]
