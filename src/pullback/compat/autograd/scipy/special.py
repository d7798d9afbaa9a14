"""``autograd.scipy.special``: the functions of ``scipy.special``, for arrays and tensors.

A universal function of SciPy takes tensors by itself, like those of NumPy: it has its derivative or
raises. Functions for which Pullback has an operator of its own use that, and a few that are not
universal are written here.

>>> from pullback.compat.autograd import grad
>>> round(grad(erf)(0.0), 6)
1.128379
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import pullback as pb
from pullback.compat.autograd import numpy as anp
from pullback.compat.autograd.extend import defjvp, defvjp, primitive
from pullback.compat.autograd.namespace import constant
from pullback.compat.autograd.scipy.lazy import scipy_module
from pullback.interop.arguments import tensors_in

__all__ = ["beta", "betainc", "betaln", "digamma", "erf", "erfc", "erfinv", "expit", "gamma"]
__all__ += [
    "gammainc",
    "gammaincc",
    "gammaln",
    "i0",
    "log_ndtr",
    "logit",
    "logsumexp",
    "multigammaln",
    "ndtr",
    "polygamma",
    "psi",
]


def _either(name: str, ours: Callable[..., Any]) -> Callable[..., Any]:
    """SciPy's function on arrays, and ours where a tensor is among the arguments."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if next(tensors_in([args, kwargs]), None) is None:
            return getattr(scipy_module("special"), name)(*args, **kwargs)
        return ours(*args, **kwargs)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"``scipy.special.{name}``."
    return call


erf = _either("erf", pb.erf)
erfc = _either("erfc", pb.erfc)
erfinv = _either("erfinv", pb.erfinv)
gamma = _either("gamma", pb.gamma)
gammaln = _either("gammaln", pb.lgamma)
digamma = _either("digamma", pb.digamma)
psi = _either("psi", pb.digamma)
i0 = _either("i0", pb.i0)
expit = _either("expit", pb.sigmoid)
logit = _either("logit", pb.logit)
polygamma = _either("polygamma", lambda n, x: pb.polygamma(int(n), x))


def _ndtr(x: Any) -> Any:
    return erfc(-x / np.sqrt(2)) / 2


def _beta(a: Any, b: Any) -> Any:
    return anp.exp(betaln(a, b))


def _betaln(a: Any, b: Any) -> Any:
    return gammaln(a) + gammaln(b) - gammaln(a + b)


ndtr = _either("ndtr", _ndtr)
beta = _either("beta", _beta)
betaln = _either("betaln", _betaln)


# --- known by their slope in the last argument ---------------------------------------------------


def _by_slope(name: str, slope: Callable[..., Any]) -> Any:
    """A function of SciPy that is differentiated by its last argument, with this derivative."""
    made = primitive(_either(name, _no_tensors))
    last = slope.__code__.co_argcount - 1
    defvjp(made, lambda _, *args: _times(slope(*args), args[last]), argnums=[last])
    defjvp(made, lambda g, _, *args: g * slope(*args), argnums=[last])
    return made


def _no_tensors(*_: Any) -> Any:
    raise AssertionError("a primitive computes with arrays")


def _times(slope: Any, x: Any) -> Callable[[Any], Any]:
    """Multiplies by a slope, and sums over axes along which the argument was repeated."""

    def back(g: Any) -> Any:
        product = g * slope
        extra = anp.ndim(product) - anp.ndim(x)
        product = anp.sum(product, axis=tuple(range(extra))) if extra else product
        pairs = enumerate(zip(anp.shape(product), anp.shape(x), strict=True))
        repeated = tuple(axis for axis, (n, m) in pairs if n != m)
        return anp.sum(product, axis=repeated, keepdims=True) if repeated else product

    return back


def _log_ndtr_slope(x: Any) -> Any:
    return anp.exp(-(x**2) / 2 - log_ndtr(x)) / np.sqrt(2 * np.pi)


def _gammainc_slope(a: Any, x: Any) -> Any:
    return anp.exp((a - 1) * anp.log(x) - x - gammaln(a))


def _gammaincc_slope(a: Any, x: Any) -> Any:
    return -_gammainc_slope(a, x)


def _betainc_slope(a: Any, b: Any, x: Any) -> Any:
    return anp.exp((a - 1) * anp.log(x) + (b - 1) * anp.log1p(-x) - betaln(a, b))


log_ndtr = _by_slope("log_ndtr", _log_ndtr_slope)
gammainc = _by_slope("gammainc", _gammainc_slope)
gammaincc = _by_slope("gammaincc", _gammaincc_slope)
betainc = _by_slope("betainc", _betainc_slope)


# --- not universal -------------------------------------------------------------------------------


def _multigammaln(a: Any, d: int) -> Any:
    shifted = anp.expand_dims(a, -1) - np.arange(d) / 2
    return anp.sum(gammaln(shifted), axis=-1) + d * (d - 1) / 4 * np.log(np.pi)


multigammaln = _either("multigammaln", _multigammaln)


def _logsumexp(
    a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False
) -> Any:
    if return_sign:
        raise NotImplementedError("logsumexp: return_sign=True has no derivative here")
    if b is None:
        return pb.logsumexp(pb.asarray(a), axis, keepdims=keepdims)
    top = anp.max(anp.where(b != 0, a, -np.inf), axis=axis, keepdims=True)
    top = pb.asarray(top).detach()
    top = anp.where(np.isfinite(top), top, 0.0)
    total = anp.log(anp.sum(b * anp.exp(a - top), axis=axis, keepdims=True)) + top
    return total if keepdims else anp.squeeze(total, axis=axis)


logsumexp = _either("logsumexp", _logsumexp)


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    found = getattr(scipy_module("special"), name)
    if isinstance(found, np.ufunc | type) or not callable(found):
        return found
    return constant(f"scipy.special.{name}", found)
