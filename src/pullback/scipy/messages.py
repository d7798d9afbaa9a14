"""Errors of SciPy's functions on tensors: function, argument, the user's line, and the way out."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from pullback.dispatch.caller import user_location
from pullback.errors import DerivativeMissingError
from pullback.interop.arguments import HOLDERS, holds_gradient

__all__ = ["arguments_with_gradient", "carries", "lost_in_callback", "refuse"]

_DETACH = (
    "Call it on x.detach() if no gradient is wanted, or write a rule with pb.library.custom_op."
)


def refuse(
    name: str,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    why: str,
    way_out: str = _DETACH,
) -> DerivativeMissingError:
    """The error of a call that would lose the gradient of an argument."""
    carrying = arguments_with_gradient(function, args, kwargs)
    listed = ", ".join(map(repr, carrying)) or "an argument"
    several = len(carrying) > 1
    return DerivativeMissingError(
        f"{name}: {why}, and {'its arguments' if several else 'its argument'} {listed} "
        f"{'carry' if several else 'carries'} a gradient, which would be lost "
        f"(called at {user_location()}). {way_out}"
    )


def lost_in_callback(name: str, why: str) -> DerivativeMissingError:
    """The error of a call whose function argument returns a tensor that carries a gradient."""
    return DerivativeMissingError(
        f"{name}: {why}, and a function among its arguments returns a tensor that carries a "
        f"gradient, which would be lost (called at {user_location()}). Return x.detach() if no "
        f"gradient is wanted, or write a rule with pb.library.custom_op."
    )


def carries(value: Any) -> bool:
    """Whether an argument is or contains a tensor that carries a gradient, or may hold one."""
    return type(value) in HOLDERS or holds_gradient(value)


def arguments_with_gradient(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[str]:
    """The names of the arguments in which a tensor carries a gradient."""
    bound = _bound_arguments(function, args, kwargs)
    return [name for name, value in bound.items() if carries(value)]


_signature = lru_cache(maxsize=1024)(inspect.signature)  # 20 µs a call without the cache


def _bound_arguments(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """The arguments of a call by name; by place where the call does not fit the signature."""
    try:
        return dict(_signature(function).bind(*args, **kwargs).arguments)
    except (TypeError, ValueError):
        return {**{f"argument {place}": value for place, value in enumerate(args)}, **kwargs}
