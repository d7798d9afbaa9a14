"""``pullback.special``: the functions of ``scipy.special``, for tensors and what can become one.

SciPy computes them; ``docs/scipy_special.md`` lists their derivatives. Functions are looked up
at their first use, so SciPy stays optional. With ``SCIPY_ARRAY_API=1`` SciPy itself
looks here for the functions of tensors.

>>> import pullback as pb
>>> x = pb.tensor([0.5, 2.0], requires_grad=True)
>>> polygamma(0, x).sum().backward()
>>> [round(slope, 6) for slope in x.grad.tolist()]
[4.934802, 0.644934]
"""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from pullback._generated import functions_pointwise as pointwise
from pullback._generated import functions_reduction as reduction
from pullback._generated import functions_shape as shape
from pullback._generated.functions_pointwise import sinc
from pullback._generated.functions_special import lgamma
from pullback._generated.functions_special import polygamma as _polygamma
from pullback.tensor.tensor import Tensor, as_operand

__all__ = ["multigammaln", "polygamma", "sinc", "zeta"]

_UFUNCS = "scipy.special._ufuncs"  # the public names are Python functions in SCIPY_ARRAY_API=1


def polygamma(n: Any, x: Any) -> Tensor:
    """The derivative of order `n`, one whole number, of the digamma function.

    >>> round(polygamma(1, 2.0).item(), 6)
    0.644934
    """
    return _polygamma(int(n), as_operand(x))


def multigammaln(a: Any, d: int) -> Tensor:
    """The logarithm of the gamma function of `d` by `d` matrices.

    >>> round(multigammaln(3.0, 2).item(), 6)
    1.550195
    """
    shifted = pointwise.subtract(shape.expand_dims(as_operand(a), -1), np.arange(int(d)) / 2)
    logarithms = reduction.sum(lgamma(shifted), axis=-1)
    return pointwise.add(logarithms, d * (d - 1) / 4 * math.log(math.pi))


def zeta(x: Any, q: Any = None) -> Any:
    """Hurwitz's zeta function, or Riemann's without `q`; differentiable by `q`."""
    if q is None:
        return _function("_riemann_zeta")(x)
    return _function("_zeta")(x, q)


def _function(name: str) -> Callable[..., Any]:
    """A universal function of SciPy, which gives tensors."""
    try:
        found = getattr(import_module(_UFUNCS), name, None)
    except ModuleNotFoundError as error:
        raise AttributeError(f"pullback.special.{name} needs SciPy: pip install scipy") from error
    if not isinstance(found, np.ufunc):
        raise AttributeError(f"scipy.special has no universal function {name!r}")

    def call(*args: Any, **options: Any) -> Any:
        if args and not any(isinstance(value, Tensor) for value in args):
            args = (as_operand(args[0]), *args[1:])
        return found(*args, **options)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"``scipy.special.{name}``, on tensors."
    return call


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals().setdefault(name, _function(name))
