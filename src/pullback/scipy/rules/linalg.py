"""Rules of ``scipy.linalg``; its parts declare them."""

from __future__ import annotations

from pullback.scipy.rules import (
    linalg_bands,
    linalg_factor,
    linalg_functions,
    linalg_solve,
    linalg_special,
    linalg_spectral,
)

__all__ = [
    "linalg_bands",
    "linalg_factor",
    "linalg_functions",
    "linalg_solve",
    "linalg_special",
    "linalg_spectral",
]
