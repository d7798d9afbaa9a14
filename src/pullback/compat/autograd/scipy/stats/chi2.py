"""The chi-squared distribution."""

from __future__ import annotations

from pullback.compat.autograd.scipy.lazy import scipy_method

__all__ = ["cdf", "logpdf", "pdf"]

cdf = scipy_method("chi2", "cdf")
logpdf = scipy_method("chi2", "logpdf")
pdf = scipy_method("chi2", "pdf")
