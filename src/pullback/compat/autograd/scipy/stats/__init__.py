"""``autograd.scipy.stats``: densities and distribution functions with derivatives."""

from __future__ import annotations

from pullback.compat.autograd.scipy.stats import (
    beta,
    chi2,
    dirichlet,
    gamma,
    multivariate_normal,
    norm,
    poisson,
    t,
)

__all__ = ["beta", "chi2", "dirichlet", "gamma", "multivariate_normal", "norm", "poisson", "t"]
