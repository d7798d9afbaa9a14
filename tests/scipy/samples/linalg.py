"""Samples of scipy.linalg."""

from __future__ import annotations

from tests.scipy.samples import linalg_decompositions, linalg_functions, linalg_solvers

__all__ = ["SAMPLES"]

SAMPLES = {
    **linalg_solvers.SAMPLES,
    **linalg_decompositions.SAMPLES,
    **linalg_functions.SAMPLES,
}
