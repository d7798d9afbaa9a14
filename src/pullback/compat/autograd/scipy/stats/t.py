"""Student's t distribution."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.compat.autograd import numpy as anp
from pullback.compat.autograd.scipy import special

__all__ = ["cdf", "logcdf", "logpdf", "pdf"]


def logpdf(x: Any, df: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
    """The logarithm of the density."""
    z = (x - loc) / scale
    constant = (
        special.gammaln((df + 1) / 2)
        - special.gammaln(df / 2)
        - anp.log(df * np.pi) / 2
        - anp.log(scale)
    )
    return constant - (df + 1) / 2 * anp.log1p(z**2 / df)


def pdf(x: Any, df: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
    """The density."""
    return anp.exp(logpdf(x, df, loc, scale))


def cdf(x: Any, df: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
    """The probability of less than x."""
    z = (x - loc) / scale
    # This form, unlike the one in z**2, has its slope at z = 0 too.
    place = (1 + z / anp.sqrt(z**2 + df)) / 2
    return special.betainc(df / 2, df / 2, place)


def logcdf(x: Any, df: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
    """The logarithm of ``cdf``."""
    return anp.log(cdf(x, df, loc, scale))
