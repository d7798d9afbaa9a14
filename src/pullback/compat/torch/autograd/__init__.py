"""``torch.autograd``: gradients, custom functions and modes under PyTorch's names."""

from __future__ import annotations

from collections.abc import Callable as _Callable
from functools import wraps as _wraps
from typing import Any as _Any

from pullback import autograd as _autograd
from pullback.autograd import (
    detect_anomaly,
    enable_grad,
    function,
    inference_mode,
    no_grad,
    set_detect_anomaly,
    set_grad_enabled,
)
from pullback.compat.torch.autograd import forward_ad, functional, graph
from pullback.compat.torch.tensor import convert as _convert
from pullback.compat.torch.tensor import converting as _converting
from pullback.compat.torch.tensor import user_code_first as _user_code_first
from pullback.tensor.tensor import exposes_subclass as _exposes_subclass

__all__ = [
    "Function",
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "forward_ad",
    "function",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
]

_METHODS = ("forward", "backward", "vjp", "jvp", "vmap", "setup_context")


class Function(_autograd.Function):
    """The base class of operations whose backward is written by hand.

    >>> import pullback.compat.torch as torch
    >>> class Double(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return 2 * x
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         return grad * 2 * torch.ones(grad.size())
    >>> x = torch.ones(2, requires_grad=True)
    >>> Double.apply(x).sum().backward()
    >>> x.grad.tolist()
    [2.0, 2.0]
    """

    def __init_subclass__(cls, **options: _Any) -> None:
        for name in _METHODS:
            method = cls.__dict__.get(name)
            if isinstance(method, staticmethod):
                setattr(cls, name, staticmethod(_converting(method.__func__)))
        super().__init_subclass__(**options)


def _exposing(function: _Callable[..., _Any]) -> _Callable[..., _Any]:
    """A function that runs a backward pass, whose hooks get instances of the class."""

    @_wraps(function)
    def call(*args: _Any, **kwargs: _Any) -> _Any:
        token = _exposes_subclass.set(True)
        try:
            return _convert(function(*args, **kwargs))
        finally:
            _exposes_subclass.reset(token)

    return call


backward = _exposing(_autograd.backward)
grad = _exposing(_autograd.grad)


gradcheck = _user_code_first(_autograd.gradcheck)
gradgradcheck = _user_code_first(_autograd.gradgradcheck)


def Variable(data: _Any, requires_grad: bool = False, **_: _Any) -> _Any:  # noqa: N802 - PyTorch's name
    """A tensor: the old name of one that can require grad."""
    found = _convert(data)
    return found.requires_grad_(True) if requires_grad else found
