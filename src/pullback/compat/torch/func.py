"""``torch.func``: transforms of functions of tensors.

A transform calls the user's function with tensors of its own; around the function they become
instances of ``pullback.compat.torch.Tensor``, and around the transform its results do.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from pullback import func as _func
from pullback.compat.torch.tensor import convert_tree, converting
from pullback.func import stack_module_state

__all__ = [
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "stack_module_state",
    "vjp",
    "vmap",
]


def _transform(transform: Callable[..., Any]) -> Callable[..., Any]:
    """A transform that returns a function."""

    @wraps(transform)
    def call(func: Callable[..., Any], *args: Any, **options: Any) -> Any:
        return converting(transform(converting(func), *args, **options))

    return call


def _product(product: Callable[..., Any]) -> Callable[..., Any]:
    """A transform that is called with a function and its arguments; it may return functions."""

    @wraps(product)
    def call(func: Callable[..., Any], *args: Any, **options: Any) -> Any:
        convert_tree((args, options))
        results = product(converting(func), *args, **options)
        return tuple(converting(part) if callable(part) else convert_tree(part) for part in results)

    return call


grad = _transform(_func.grad)
grad_and_value = _transform(_func.grad_and_value)
hessian = _transform(_func.hessian)
jacfwd, jacrev = _transform(_func.jacfwd), _transform(_func.jacrev)
vmap, functionalize = _transform(_func.vmap), _transform(_func.functionalize)
jvp, vjp, linearize = _product(_func.jvp), _product(_func.vjp), _product(_func.linearize)


def functional_call(module: Any, *args: Any, **options: Any) -> Any:
    """Calls a module with other parameters."""
    return convert_tree(_func.functional_call(module, *args, **options))
