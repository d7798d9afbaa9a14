"""The Poisson distribution, differentiated by its mean."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.compat.autograd import numpy as anp
from pullback.compat.autograd.scipy import special

__all__ = ["cdf", "logpmf", "pmf"]


def logpmf(k: Any, mu: Any) -> Any:
    """The logarithm of the probability of k."""
    return k * anp.log(mu) - mu - special.gammaln(np.asarray(k) + 1.0)


def pmf(k: Any, mu: Any) -> Any:
    """The probability of k."""
    return anp.exp(logpmf(k, mu))


def cdf(k: Any, mu: Any) -> Any:
    """The probability of k or less."""
    return special.gammaincc(np.floor(k) + 1.0, mu)
