"""``autograd.scipy.special``: the functions of ``scipy.special``, for arrays and tensors.

SciPy's universal functions take tensors by themselves, like those of NumPy;
``docs/scipy_special.md`` lists their derivatives. The ones here are not universal. All others
refuse what carries a gradient.

>>> import numpy as np
>>> from pullback.compat.autograd import grad
>>> grad(logsumexp)(np.zeros(2))
array([0.5, 0.5])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import pullback as pb
from pullback.compat.autograd import numpy as anp
from pullback.compat.autograd.namespace import constant
from pullback.compat.autograd.scipy.lazy import scipy_module
from pullback.errors import DerivativeMissingError
from pullback.interop.arguments import tensors_in

__all__ = ["logsumexp", "multigammaln", "polygamma"]


def _either(name: str, ours: Callable[..., Any]) -> Callable[..., Any]:
    """SciPy's function on arrays, and ours where a tensor is among the arguments."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if next(tensors_in([args, kwargs]), None) is None:
            return getattr(scipy_module("special"), name)(*args, **kwargs)
        return ours(*args, **kwargs)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"``scipy.special.{name}``."
    return call


def _multigammaln(a: Any, d: int) -> Any:
    shifted = anp.expand_dims(a, -1) - np.arange(d) / 2
    return anp.sum(pb.lgamma(shifted), axis=-1) + d * (d - 1) / 4 * np.log(np.pi)


def _logsumexp(
    a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False
) -> Any:
    if return_sign:
        raise DerivativeMissingError("logsumexp: return_sign=True has no derivative here")
    if b is None:
        return pb.logsumexp(pb.asarray(a), axis, keepdims=keepdims)
    top = pb.asarray(anp.max(anp.where(b != 0, a, -np.inf), axis=axis, keepdims=True)).detach()
    top = anp.where(np.isfinite(top), top, 0.0)
    total = anp.log(anp.sum(b * anp.exp(a - top), axis=axis, keepdims=True)) + top
    return total if keepdims else anp.squeeze(total, axis=axis)


logsumexp = _either("logsumexp", _logsumexp)
multigammaln = _either("multigammaln", _multigammaln)
polygamma = _either("polygamma", lambda n, x: pb.polygamma(int(n), x))


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    found = getattr(scipy_module("special"), name)
    if isinstance(found, np.ufunc | type) or not callable(found):
        return found
    return constant(f"scipy.special.{name}", found)
