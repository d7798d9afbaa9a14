"""The Dirichlet distribution."""

from __future__ import annotations

from typing import Any

from pullback.compat.autograd import numpy as anp
from pullback.compat.autograd.scipy.special import gammaln

__all__ = ["logpdf", "pdf"]


def logpdf(x: Any, alpha: Any) -> Any:
    """The logarithm of the density."""
    constant = gammaln(anp.sum(alpha)) - anp.sum(gammaln(alpha))
    return constant + anp.sum((alpha - 1) * anp.log(x))


def pdf(x: Any, alpha: Any) -> Any:
    """The density."""
    return anp.exp(logpdf(x, alpha))
