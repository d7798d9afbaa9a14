"""Student's t distribution."""

from __future__ import annotations

from pullback.compat.autograd.scipy.lazy import scipy_method

__all__ = ["cdf", "logcdf", "logpdf", "pdf"]

cdf = scipy_method("t", "cdf")
logcdf = scipy_method("t", "logcdf")
logpdf = scipy_method("t", "logpdf")
pdf = scipy_method("t", "pdf")
