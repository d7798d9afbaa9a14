"""The chi-squared distribution."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.compat.autograd import numpy as anp
from pullback.compat.autograd.scipy import special

__all__ = ["cdf", "logpdf", "pdf"]


def logpdf(x: Any, df: Any) -> Any:
    """The logarithm of the density."""
    return (df / 2 - 1) * anp.log(x) - x / 2 - df / 2 * np.log(2) - special.gammaln(df / 2)


def pdf(x: Any, df: Any) -> Any:
    """The density."""
    return anp.exp(logpdf(x, df))


def cdf(x: Any, df: Any) -> Any:
    """The probability of less than x."""
    return special.gammainc(df / 2, x / 2)
