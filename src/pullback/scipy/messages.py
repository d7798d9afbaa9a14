"""Errors of SciPy's functions on tensors: function, argument, the user's line, and the way out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.dispatch.caller import user_location
from pullback.errors import DerivativeMissingError
from pullback.interop.arguments import refusal
from pullback.scipy.signatures import arguments_with_gradient

__all__ = ["lost_arguments", "lost_in_callback", "option_without_rule", "refuse"]

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
    return lost_arguments(name, arguments_with_gradient(function, args, kwargs), why, way_out)


def lost_arguments(
    name: str, carrying: list[str], why: str, way_out: str
) -> DerivativeMissingError:
    """The same, for the names of the arguments that carry a gradient."""
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


def option_without_rule(name: str, option: str, value: Any) -> DerivativeMissingError:
    """The error of a rule that does not support the value of an option."""
    return refusal(
        name, f"it has no derivative here with {option}={value!r}", "Choose another option."
    )
