"""The beta distribution."""

from __future__ import annotations

from pullback.compat.autograd.scipy.lazy import scipy_method

__all__ = ["cdf", "logpdf", "pdf"]

cdf = scipy_method("beta", "cdf")
logpdf = scipy_method("beta", "logpdf")
pdf = scipy_method("beta", "pdf")
