"""``torch.library``: custom operators, as ``pullback.library`` has them.

User code that is registered (kernels, shape functions, backward formulas) gets instances of
``pullback.compat.torch.Tensor``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import FunctionType
from typing import Any

from pullback import library as _library
from pullback.compat.torch.tensor import converting

__all__ = ["CustomOp"]
for _name in _library.__all__:
    globals()[_name] = getattr(_library, _name)
    __all__ += [_name] if _name not in __all__ else []


def _registering(register: Callable[..., Any]) -> Callable[..., Any]:
    """A function that registers user code: functions among its arguments are put in `converting`.

    Where it returns a decorator, so does the result.
    """

    @wraps(register)
    def call(*args: Any, **options: Any) -> Any:
        given = [converting(arg) if type(arg) is FunctionType else arg for arg in args]
        named = {n: converting(v) if type(v) is FunctionType else v for n, v in options.items()}
        result = register(*given, **named)
        if type(result) is FunctionType and not any(result is value for value in given):
            return lambda function: result(converting(function))
        return result

    return call


class CustomOp(_library.CustomOp):
    """A custom operator, with the functions that are registered for it."""

    register_kernel = _registering(_library.CustomOp.register_kernel)
    register_fake = _registering(_library.CustomOp.register_fake)
    register_vmap = _registering(_library.CustomOp.register_vmap)
    register_autograd = _registering(_library.CustomOp.register_autograd)
    register_jvp = _registering(_library.CustomOp.register_jvp)


def custom_op(name: str, fn: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Defines an operator by a function of tensors.

    >>> import pullback.compat.torch as torch
    >>> @torch.library.custom_op("docs::double", mutates_args=())
    ... def double(x: torch.Tensor) -> torch.Tensor:
    ...     return x * x.new_full(x.size(), 2.0)
    >>> double(torch.ones(2)).tolist()
    [2.0, 2.0]
    >>> double._destroy()
    """
    if fn is None:
        return lambda function: custom_op(name, function, **options)
    made = _library.custom_op(name, converting(fn), **options)
    made.__class__ = CustomOp
    return made


register_autograd = _registering(_library.register_autograd)
register_fake = _registering(_library.register_fake)
register_kernel = _registering(_library.register_kernel)
register_vmap = _registering(_library.register_vmap)


def __getattr__(name: str) -> Any:
    raise AttributeError(f"torch.library.{name} is not part of pullback.compat.torch")
