"""The normal distribution in several dimensions.

The gradient by the covariance matrix is symmetric, as in HIPS autograd.
"""

from __future__ import annotations

from typing import Any

from pullback.compat.autograd import numpy as anp
from pullback.compat.autograd.scipy.lazy import scipy_method

__all__ = ["entropy", "logpdf", "pdf"]

_entropy = scipy_method("multivariate_normal", "entropy")
_logpdf = scipy_method("multivariate_normal", "logpdf")
_pdf = scipy_method("multivariate_normal", "pdf")


def _symmetric(cov: Any) -> Any:
    return (cov + anp.transpose(cov)) / 2 if anp.ndim(cov) == 2 else cov


def logpdf(x: Any, mean: Any, cov: Any, allow_singular: bool = False) -> Any:
    """The logarithm of the density, for one point or for points along the leading axes."""
    return _logpdf(x, mean, _symmetric(cov), allow_singular)


def pdf(x: Any, mean: Any, cov: Any, allow_singular: bool = False) -> Any:
    """The density."""
    return _pdf(x, mean, _symmetric(cov), allow_singular)


def entropy(mean: Any, cov: Any) -> Any:
    """The differential entropy, which does not depend on the mean."""
    return _entropy(mean, _symmetric(cov))
