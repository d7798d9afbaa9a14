"""The beta distribution."""

from __future__ import annotations

from typing import Any

from pullback.compat.autograd import numpy as anp
from pullback.compat.autograd.scipy import special

__all__ = ["cdf", "logpdf", "pdf"]


def logpdf(x: Any, a: Any, b: Any) -> Any:
    """The logarithm of the density."""
    return (a - 1) * anp.log(x) + (b - 1) * anp.log1p(-x) - special.betaln(a, b)


def pdf(x: Any, a: Any, b: Any) -> Any:
    """The density."""
    return anp.exp(logpdf(x, a, b))


def cdf(x: Any, a: Any, b: Any) -> Any:
    """The probability of less than x."""
    return special.betainc(a, b, x)
