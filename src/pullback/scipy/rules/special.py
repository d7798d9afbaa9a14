"""Rules of scipy.special: its universal functions are operators, others stand here."""

from __future__ import annotations

from typing import Any

from pullback.operators.scipy_special.functions import multigammaln, polygamma
from pullback.scipy.registry import rule

__all__: list[str] = []


@rule("scipy.special.multigammaln", tensors="a")
def _multigammaln(a: Any, d: int) -> Any:
    return multigammaln(a, d)


@rule("scipy.special.polygamma", tensors="x")
def _polygamma(n: Any, x: Any) -> Any:
    return polygamma(n, x)
