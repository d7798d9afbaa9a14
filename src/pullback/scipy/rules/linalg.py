"""Rules of ``scipy.linalg``; its parts declare them."""

from __future__ import annotations

from pullback.scipy.registry import constant, refused
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

for _name in ("bandwidth", "ishermitian", "issymmetric"):
    constant(f"scipy.linalg.{_name}", "its result is a whole number or a truth value")
for _name in ("null_space", "orth"):
    refused(f"scipy.linalg.{_name}", "the basis that it returns is not determined by its argument")
for _name in ("cossin", "matrix_balance"):
    refused(f"scipy.linalg.{_name}", "it has no derivative here")
