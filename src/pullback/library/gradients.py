"""Checks what a backward with positional gradients returns, and makes it flat."""

from __future__ import annotations

from typing import Any

from pullback.errors import AutogradError
from pullback.library.rules import Rules
from pullback.tensor.tensor import Tensor

__all__ = ["flat_gradients"]


def flat_gradients(rules: Rules, node: Any, returned: Any) -> list[Tensor | None]:
    """The gradient of every tensor that the call got, out of one value for each argument."""
    given: tuple[Any, ...] = node._given
    results = returned if isinstance(returned, tuple) else (returned,)
    surplus = any(result is not None for result in results[len(given) :])
    if len(results) < len(given) or surplus:
        raise AutogradError(
            f"{_where(rules)} returned an incorrect number of gradients (expected {len(given)}, "
            f"got {len(results)}): one for each positional argument, "
            f"({', '.join(rules.positional)}), None where there is none"
        )
    flat: list[Tensor | None] = []
    for place, (taken, result) in enumerate(zip(given, results, strict=False)):
        name = rules.positional[place]
        if isinstance(taken, tuple):
            flat += _list_gradients(rules, name, taken, result)
        elif taken:
            flat.append(_gradient(rules, name, place, result))
        elif result is not None:
            raise AutogradError(
                f"{_where(rules)} returned a gradient different than None at position {place + 1}, "
                f"for the argument {name!r}, which was no tensor"
            )
    return flat


def _where(rules: Rules) -> str:
    return f"the backward of {rules.name}, registered at {rules.places['backward']},"


def _gradient(rules: Rules, name: str, place: int, result: Any) -> Tensor | None:
    if result is None or isinstance(result, Tensor):
        return result
    raise AutogradError(
        f"{_where(rules)} returned an invalid gradient at index {place}, for {name!r} - expected "
        f"Variable or None (got {type(result).__name__})"
    )


def _list_gradients(
    rules: Rules, name: str, taken: tuple[bool, ...], result: Any
) -> list[Tensor | None]:
    fits = isinstance(result, list | tuple) and len(result) == len(taken)
    if not fits or any(not (g is None or isinstance(g, Tensor)) for g in result):
        raise AutogradError(
            f"Expected the return from backward to be of the same structure as the inputs: "
            f"{_where(rules)} has to return a list of {len(taken)} gradients for {name!r} (None "
            f"where there is none), not {_describe(result)}"
        )
    flat = []
    for index, (was_tensor, grad) in enumerate(zip(taken, result, strict=True)):
        if was_tensor:
            flat.append(grad)
        elif grad is not None:
            raise AutogradError(
                f"{_where(rules)} returned a gradient different than None for {name}[{index}], "
                f"which was no tensor"
            )
    return flat


def _describe(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"a {type(value).__name__} of {len(value)}"
    return type(value).__name__
