"""The Dirichlet distribution."""

from __future__ import annotations

from pullback.compat.autograd.scipy.lazy import scipy_method

__all__ = ["logpdf", "pdf", "rvs"]

logpdf = scipy_method("dirichlet", "logpdf")
pdf = scipy_method("dirichlet", "pdf")
rvs = scipy_method("dirichlet", "rvs")
