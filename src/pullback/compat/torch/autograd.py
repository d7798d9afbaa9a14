"""``torch.autograd``: gradients, custom functions and modes under PyTorch's names."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import SimpleNamespace
from typing import Any

from pullback import autograd as _autograd
from pullback.autograd import (
    detect_anomaly,
    enable_grad,
    forward_ad,
    function,
    graph,
    inference_mode,
    no_grad,
    set_detect_anomaly,
    set_grad_enabled,
)
from pullback.compat.torch.tensor import convert, convert_tree, converting
from pullback.tensor.tensor import exposes_subclass

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

    def __init_subclass__(cls, **options: Any) -> None:
        for name in _METHODS:
            method = cls.__dict__.get(name)
            if isinstance(method, staticmethod):
                setattr(cls, name, staticmethod(converting(method.__func__)))
        super().__init_subclass__(**options)


def _exposing(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that runs a backward pass, whose hooks get instances of the class."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        token = exposes_subclass.set(True)
        try:
            return convert(function(*args, **kwargs))
        finally:
            exposes_subclass.reset(token)

    return call


backward = _exposing(_autograd.backward)
grad = _exposing(_autograd.grad)


def _of_function(transform: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose first argument is a function of tensors."""

    @wraps(transform)
    def call(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return convert_tree(transform(converting(func), *args, **kwargs))

    return call


gradcheck = _of_function(_autograd.gradcheck)
gradgradcheck = _of_function(_autograd.gradgradcheck)
functional = SimpleNamespace(
    **{
        name: _of_function(getattr(_autograd.functional, name))
        for name in _autograd.functional.__all__
    }
)


def Variable(data: Any, requires_grad: bool = False, **_: Any) -> Any:  # noqa: N802 - PyTorch's name
    """A tensor: the old name of one that can require grad."""
    found = convert(data)
    return found.requires_grad_(True) if requires_grad else found
