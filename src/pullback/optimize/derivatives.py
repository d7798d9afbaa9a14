"""Exact derivatives in the form that SciPy's solvers take: functions of arrays that give arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pullback._generated import functions_shape as shapes
from pullback.errors import AutogradError, AutogradValueError
from pullback.func.numpy_style import hessian, hvp, jacobian, value_and_grad
from pullback.interop.arguments import as_tensor, carries_gradient
from pullback.sparse.coloring import color_hessian, color_jacobian
from pullback.sparse.derivatives import (
    hessian_pattern,
    jacobian_pattern,
    sparse_hessian,
    sparse_jacobian,
)
from pullback.tensor.tensor import Tensor

__all__ = [
    "hessian_of",
    "jacobian_of",
    "on_arrays",
    "product_of",
    "scalar",
    "value_and_slope",
    "vector",
]

_Function = Callable[..., Any]
_SPARSE_SIZE = 100  # unknowns from which sparsity is looked for
_SPARSE_SHARE = 0.2  # of nonzeros, up to which it pays


def scalar(function: _Function) -> Callable[..., Tensor]:
    """The function with a result without axes; the function must return one number."""

    def run(x: Any, *args: Any) -> Tensor:
        found = as_tensor(function(x, *args))
        if found.size != 1:
            name = getattr(function, "__name__", type(function).__name__)
            raise AutogradValueError(
                f"the function to minimize must return one number; {name} returned shape "
                f"{tuple(found.shape)}. Return its sum, or use pb.optimize.least_squares for a "
                f"vector of residuals."
            )
        return shapes.reshape(found, [])

    return run


def vector(function: _Function) -> Callable[..., Tensor]:
    """The function with a result of one axis."""
    return lambda x, *args: shapes.reshape(as_tensor(function(x, *args)), [-1])


def on_arrays(function: _Function) -> _Function:
    """The function with arrays as results, unless it is called with tensors or captures some."""
    whole = vector(function)

    def run(x: Any, *args: Any) -> Any:
        found = whole(x, *args)
        is_differentiated = isinstance(x, Tensor) or carries_gradient(found)
        return found if is_differentiated else found.numpy()

    return run


def value_and_slope(function: _Function) -> _Function:
    """Value and gradient, for ``jac=True``."""
    return value_and_grad(scalar(function))


def product_of(function: _Function) -> _Function:
    """Hessian products in SciPy's order of arguments: ``hessp(x, p, *args)``."""
    return hvp(scalar(function), vector=1)


def jacobian_of(function: _Function, start: Any, args: tuple[Any, ...], sparse: Any) -> _Function:
    """The Jacobian as a function of x; sparse with ``sparse=True``, or if it pays (None)."""
    whole = vector(function)
    pattern = _pattern(jacobian_pattern, lambda x: whole(x, *args), start, sparse)
    if pattern is None:
        return jacobian(whole)
    coloring = color_jacobian(pattern)

    def found(x: Any, *args: Any) -> Any:
        return sparse_jacobian(
            lambda x: whole(x, *args), x, pattern=pattern, coloring=coloring, verify=False
        )

    return found


def hessian_of(function: _Function, start: Any, args: tuple[Any, ...], sparse: Any) -> _Function:
    """The Hessian as a function of x; sparse with ``sparse=True``, or if it pays (None)."""
    whole = scalar(function)
    pattern = _pattern(hessian_pattern, lambda x: whole(x, *args), start, sparse)
    if pattern is None:
        return hessian(whole)
    places = (pattern + pattern.T).tocsr()
    coloring = color_hessian(places)

    def found(x: Any, *args: Any) -> Any:
        return sparse_hessian(
            lambda x: whole(x, *args), x, pattern=places, coloring=coloring, verify=False
        )

    return found


def _pattern(find: _Function, function: _Function, start: Any, sparse: Any) -> Any:
    """The sparsity pattern, or None if the derivative is to be dense."""
    if sparse is False or (sparse is None and start.size < _SPARSE_SIZE):
        return None
    try:
        pattern = find(function, start)
    except AutogradError:
        if sparse:
            raise
        return None
    is_sparse = pattern.nnz <= _SPARSE_SHARE * np.prod(pattern.shape)
    return pattern if sparse or is_sparse else None
