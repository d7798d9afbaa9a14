"""The Dirichlet distribution."""

from __future__ import annotations

from typing import Any

from pullback.compat.autograd import numpy as anp
from pullback.compat.autograd.scipy import special

__all__ = ["logpdf", "pdf"]


def logpdf(x: Any, alpha: Any) -> Any:
    """The logarithm of the density."""
    constant = special.gammaln(anp.sum(alpha)) - anp.sum(special.gammaln(alpha))
    return constant + anp.sum((alpha - 1) * anp.log(x))


def pdf(x: Any, alpha: Any) -> Any:
    """The density."""
    return anp.exp(logpdf(x, alpha))
