"""Do all peers compute the same? Compared before anything is timed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.workloads.base import Array

TOLERANCE = 1e-9  # relative to the largest element of an array; all is float64


class DisagreementError(Exception):
    """Two peers have different values or gradients."""


def read(path: Path) -> list[Array]:
    with np.load(path) as file:
        return [file[name] for name in file.files]


def difference(found: Sequence[Array], expected: Sequence[Array]) -> float:
    """The largest difference between two lists of arrays, relative to each array's size."""
    if len(found) != len(expected):
        raise DisagreementError(f"{len(found)} arrays, but {len(expected)} expected")
    worst = 0.0
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        if a.shape != b.shape:
            raise DisagreementError(f"array {i} has shape {a.shape}, but {b.shape} is expected")
        if a.size == 0:
            continue
        scale = max(float(np.max(np.abs(b))), 1e-12)
        off = float(np.max(np.abs(a - b))) / scale
        if not off <= TOLERANCE:  # also true for nan
            raise DisagreementError(f"array {i} is off by {off:.1e} of its largest element")
        worst = max(worst, off)
    return worst
