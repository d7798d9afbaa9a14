"""The normal distribution.

>>> from pullback.compat.autograd import grad
>>> grad(logpdf)(3.0, 1.0, 2.0)
-0.5
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.compat.autograd import numpy as anp
from pullback.compat.autograd.scipy import special

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]


def logpdf(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
    """The logarithm of the density."""
    return -(((x - loc) / scale) ** 2) / 2 - anp.log(scale) - np.log(2 * np.pi) / 2


def pdf(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
    """The density."""
    return anp.exp(logpdf(x, loc, scale))


def cdf(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
    """The probability of less than x."""
    return special.ndtr((x - loc) / scale)


def sf(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
    """The probability of more than x."""
    return special.ndtr((loc - x) / scale)


def logcdf(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
    """The logarithm of ``cdf``, also far out."""
    return special.log_ndtr((x - loc) / scale)


def logsf(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
    """The logarithm of ``sf``, also far out."""
    return special.log_ndtr((loc - x) / scale)
