"""``autograd.scipy.linalg``: the functions of ``scipy.linalg``, by their derivative rules."""

from __future__ import annotations

from typing import Any

from pullback.compat.autograd.scipy.lazy import scipy_function, scipy_module

__all__ = ["solve_sylvester", "solve_triangular", "sqrtm"]

solve_sylvester = scipy_function("linalg", "solve_sylvester")
solve_triangular = scipy_function("linalg", "solve_triangular")
sqrtm = scipy_function("linalg", "sqrtm")


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    return getattr(scipy_module("linalg"), name)
