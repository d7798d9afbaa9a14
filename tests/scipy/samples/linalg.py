"""Samples of scipy.linalg."""

from __future__ import annotations

from tests.scipy.sample import Sample

__all__ = ["SAMPLES"]

SAMPLES: dict[str, Sample] = {}
