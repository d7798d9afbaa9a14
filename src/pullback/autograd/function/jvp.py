"""Forward mode through user functions: ``Function.jvp`` and the tangents that it returns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from pullback.autograd.forward.tangents import (
    set_beside,
    tangents_of,
    write_tangent,
    zeros_like,
)
from pullback.autograd.graph.views import view_of
from pullback.autograd.levels import Level
from pullback.dispatch.keys import DUAL
from pullback.dispatch.modes import TAPE, StateGuard
from pullback.errors import AutogradError
from pullback.tensor.tensor import Tensor

__all__ = ["alone", "given_tangents", "push_tangents"]


def alone(levels: Iterable[Level]) -> StateGuard:
    """Guard for ``forward``: tangents do not propagate in it, and no tangent tape records it."""
    return StateGuard(drop=DUAL if levels else 0, end=TAPE)


def given_tangents(args: tuple[Any, ...], level: Level, materializes: bool) -> list[Tensor | None]:
    """The tangent of every argument; of tensors without one, zeros where these are wanted."""
    found: list[Tensor | None] = []
    for value in args:
        tangent = tangents_of(value).get(level) if isinstance(value, Tensor) else None
        if tangent is None and materializes and isinstance(value, Tensor):
            tangent = zeros_like(value) if value.dtype.kind in "fc" else None
        found.append(tangent)
    return found


def push_tangents(
    jvp: Callable[[], Any],
    level: Level,
    args: tuple[Any, ...],
    given: list[Tensor | None],
    results: Any,
    dirty: tuple[Any, ...],
    constant: tuple[Any, ...],
) -> None:
    """Calls a jvp and gives what it returns to the results of the forward call, at a level."""
    outputs = results if isinstance(results, tuple) else (results,)
    returned = jvp()
    tangents = returned if isinstance(returned, tuple) else (returned,)
    if len(tangents) != len(outputs):
        raise AutogradError(
            f"Function's jvp returned an invalid number of forward gradients (expected "
            f"{len(outputs)} but got {len(tangents)}); it returns one for each result of forward"
        )
    for place, (output, tangent) in enumerate(zip(outputs, tangents, strict=True)):
        if (
            not isinstance(output, Tensor)
            or output.dtype.kind not in "fc"
            or _has(constant, output)
        ):
            if tangent is not None:
                raise AutogradError(
                    f"Function's jvp returned a gradient at position {place}, but the "
                    f"corresponding forward output is not a differentiable Tensor. You should "
                    f"return None at that position instead."
                )
            continue
        tangent = zeros_like(output) if tangent is None else _checked(tangent, output, place)
        if _has(dirty, output):
            held = next((t for a, t in zip(args, given, strict=True) if a is output), None)
            if held is not None and tangent is not held:
                raise AutogradError(
                    "An inplace custom Function is not modifying the forward mode gradients "
                    "inplace. If the forward is modifying an input inplace, then the jvp function "
                    "must modify the corresponding gradient inplace, and return it."
                )
            if level not in tangents_of(output):
                write_tangent(output, level, tangent)
            continue
        if view_of(output) is not None:
            _check_view(output, tangent, args, given)
        set_beside(output, level, tangent)


def _check_view(
    output: Tensor, tangent: Tensor, args: tuple[Any, ...], given: list[Tensor | None]
) -> None:
    """Refuses the tangent of a view that is not the same view of a tangent that the jvp got.

    A write to the view, or to its base, could not find the tangent's memory.
    """
    view, of_tangent = view_of(output), view_of(tangent)
    if view is not None and of_tangent is None:
        raise AutogradError(
            "A custom Function's forward is returning a view (or an input as-is) but the jvp is "
            "not returning a view. Take the same view of the tangent."
        )
    assert view is not None
    assert of_tangent is not None
    for value, held in zip(args, given, strict=True):
        if not isinstance(value, Tensor) or held is None or _root(value) is not view.base:
            continue
        if of_tangent.base is not _root(held):
            raise AutogradError(
                "A custom Function is returning a view but the jvp is not returning a view of the "
                "given grad input: take the same view of the tangent of that input"
            )
        if not _is_same_part(output, value, tangent, held):
            raise AutogradError(
                "forward is returning a view, and the jvp a view of another part of the tangent: "
                "take the same view of it"
            )
        return


def _root(tensor: Tensor) -> Tensor:
    view = view_of(tensor)
    return tensor if view is None else view.base


def _is_same_part(output: Tensor, value: Tensor, tangent: Tensor, held: Tensor) -> bool:
    """Whether a tangent lies in its input's tangent as the output does in its input."""
    arrays = [each._array for each in (output, value, tangent, held)]
    if any(type(each) is not np.ndarray for each in arrays):
        return True  # offsets of batched arrays are not comparable
    part, whole, part_tangent, whole_tangent = arrays
    if whole.strides != whole_tangent.strides or whole.dtype != whole_tangent.dtype:
        return True  # they run differently, and no place can be compared
    offset = part.ctypes.data - whole.ctypes.data
    tangent_offset = part_tangent.ctypes.data - whole_tangent.ctypes.data
    return bool(part_tangent.strides == part.strides and tangent_offset == offset)


def _has(tensors: tuple[Any, ...], tensor: Tensor) -> bool:
    return any(t is tensor for t in tensors)


def _checked(tangent: Any, output: Tensor, place: int) -> Tensor:
    if not isinstance(tangent, Tensor):
        raise AutogradError(
            f"jvp: expected Variable or None (got {type(tangent).__name__}) for grad output {place}"
        )
    if tangent.shape != output.shape:
        raise AutogradError(
            f"jvp: Trying to set a forward gradient that has a different size than that of the "
            f"original Tensor, at position {place}: the output has shape {list(output.shape)}, "
            f"and its tangent {list(tangent.shape)}"
        )
    return tangent
