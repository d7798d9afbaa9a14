"""The gamma distribution."""

from __future__ import annotations

from pullback.compat.autograd.scipy.lazy import scipy_method

__all__ = ["cdf", "logpdf", "pdf"]

cdf = scipy_method("gamma", "cdf")
logpdf = scipy_method("gamma", "logpdf")
pdf = scipy_method("gamma", "pdf")
