"""``pullback.special``: the functions of ``scipy.special``, for tensors and what can become one."""

from __future__ import annotations

from pullback.operators.scipy_special.functions import (
    __getattr__,  # noqa: F401 - names of scipy.special, on demand
    multigammaln,
    polygamma,
    sinc,
    zeta,
)

__all__ = ["multigammaln", "polygamma", "sinc", "zeta"]
