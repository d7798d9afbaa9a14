"""The Poisson distribution, differentiated by its mean."""

from __future__ import annotations

from pullback.compat.autograd.scipy.lazy import scipy_method

__all__ = ["cdf", "logpmf", "pmf"]

cdf = scipy_method("poisson", "cdf")
logpmf = scipy_method("poisson", "logpmf")
pmf = scipy_method("poisson", "pmf")
