"""``autograd.scipy.special``: the functions of ``scipy.special``, for arrays and tensors.

SciPy's own functions take tensors (``docs/scipy_special.md``, ``docs/scipy.md``), or refuse what
carries a gradient.

>>> import numpy as np
>>> from pullback.compat.autograd import grad
>>> grad(logsumexp)(np.zeros(2))
array([0.5, 0.5])
"""

from __future__ import annotations

from typing import Any

from pullback.compat.autograd.scipy.lazy import scipy_function, scipy_module

__all__ = ["logsumexp", "multigammaln", "polygamma"]

logsumexp = scipy_function("special", "logsumexp")
multigammaln = scipy_function("special", "multigammaln")
polygamma = scipy_function("special", "polygamma")


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    return getattr(scipy_module("special"), name)
