"""The normal distribution in several dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.compat.autograd import numpy as anp

__all__ = ["entropy", "logpdf", "pdf"]


def logpdf(x: Any, mean: Any, cov: Any) -> Any:
    """The logarithm of the density, for one point or for points along the leading axes."""
    cov = anp.atleast_2d(cov)
    apart = anp.asarray(x) - anp.asarray(mean)
    apart = anp.reshape(apart, (1,)) if anp.ndim(apart) == 0 else apart
    n = anp.shape(cov)[0]
    solved = anp.linalg.solve(cov, anp.reshape(apart, (-1, n)).T).T
    square = anp.reshape(anp.sum(anp.reshape(apart, (-1, n)) * solved, axis=1), apart.shape[:-1])
    return -(square + anp.linalg.slogdet(cov)[1] + n * np.log(2 * np.pi)) / 2


def pdf(x: Any, mean: Any, cov: Any) -> Any:
    """The density."""
    return anp.exp(logpdf(x, mean, cov))


def entropy(mean: Any, cov: Any) -> Any:
    """The differential entropy, which does not depend on the mean."""
    del mean
    cov = anp.atleast_2d(cov)
    n = anp.shape(cov)[0]
    return (n * (1 + np.log(2 * np.pi)) + anp.linalg.slogdet(cov)[1]) / 2
