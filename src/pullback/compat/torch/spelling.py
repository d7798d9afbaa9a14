"""Translation of argument names: PyTorch's ``input``, ``dim`` and ``keepdim`` to NumPy's."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

__all__ = ["numpy_names", "spell"]

_FIRST = ("input", "other")


def spell(
    function: Callable[..., Any], first: tuple[str, ...] = (), **renamed: str
) -> Callable[..., Any]:
    """A function that also takes PyTorch's argument names.

    Args:
        function: an operator's function.
        first: PyTorch's names of its arguments by position; by default ``input`` and ``other``.
        renamed: PyTorch's name of an argument -> the function's own.

    >>> import pullback as pb
    >>> spell(pb.flip, dims="axis")(input=pb.arange(3), dims=[0]).tolist()
    [2, 1, 0]
    """
    names = {"dim": "axis", "keepdim": "keepdims"} | renamed
    if not first:
        parameters = inspect.signature(function).parameters.values()
        first = _FIRST[: sum(p.kind is p.POSITIONAL_ONLY for p in parameters)]

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not kwargs:
            return function(*args)
        for name in first[len(args) :]:
            if name in kwargs:
                args = (*args, kwargs.pop(name))
        return function(*args, **{names.get(name, name): v for name, v in kwargs.items()})

    return call


def numpy_names(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function with PyTorch's argument names that takes NumPy's too, as PyTorch does.

    >>> numpy_names(lambda input, dim=None, keepdim=False: (dim, keepdim))(0, axis=1, keepdims=True)
    (1, True)
    """
    names = {"axis": "dim", "keepdims": "keepdim", "x": "input"}

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not kwargs:
            return function(*args)
        return function(*args, **{names.get(name, name): v for name, v in kwargs.items()})

    return call
