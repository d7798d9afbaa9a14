"""The gamma distribution."""

from __future__ import annotations

from typing import Any

from pullback.compat.autograd import numpy as anp
from pullback.compat.autograd.scipy import special

__all__ = ["cdf", "logpdf", "pdf"]


def logpdf(x: Any, a: Any) -> Any:
    """The logarithm of the density."""
    return (a - 1) * anp.log(x) - x - special.gammaln(a)


def pdf(x: Any, a: Any) -> Any:
    """The density."""
    return anp.exp(logpdf(x, a))


def cdf(x: Any, a: Any) -> Any:
    """The probability of less than x."""
    return special.gammainc(a, x)
