"""The normal distribution.

>>> from pullback.compat.autograd import grad
>>> grad(logpdf)(3.0, 1.0, 2.0)
-0.5
"""

from __future__ import annotations

from pullback.compat.autograd.scipy.lazy import scipy_method

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]

cdf = scipy_method("norm", "cdf")
logcdf = scipy_method("norm", "logcdf")
logpdf = scipy_method("norm", "logpdf")
logsf = scipy_method("norm", "logsf")
pdf = scipy_method("norm", "pdf")
sf = scipy_method("norm", "sf")
