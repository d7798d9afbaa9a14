"""Forward mode through custom operators: ``register_jvp``.

`jvp(ctx, *tangents)` has the form of ``autograd.Function.jvp``: one tangent for each positional
argument, a list for a list, None where there is none to have. `ctx` was filled by `setup_context`;
its ``saved_tensors`` are what ``save_for_forward`` got, or else ``save_for_backward``. Without such
a rule a tangent would be lost in silence, so the call raises.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pullback.autograd.forward.tangents import (
    below,
    keep_tangents,
    levels_of,
    set_beside,
    tangents_of,
    zeros_like,
)
from pullback.autograd.graph.node import unpack_edge
from pullback.autograd.graph.saved import SavedOutput, output_from, version
from pullback.autograd.graph.saved_hooks import Packed
from pullback.autograd.levels import Level
from pullback.dispatch.modes import get_state, set_state
from pullback.errors import AutogradError, DerivativeMissingError
from pullback.library.kernel_call import tensors_in
from pullback.library.rules import Rules
from pullback.library.user_state import USER_STATES
from pullback.tensor.tensor import Tensor

__all__ = ["forward_kernel"]

_Function = Callable[..., Any]


def forward_kernel(rules: Rules, base: _Function, make_node: _Function) -> _Function:
    """Runs the operator, then its forward rule at every level of its arguments' tangents."""
    if rules.jvp is None:
        return _missing(rules)

    def run(*args: Any, **kwargs: Any) -> Any:
        levels = levels_of(args)
        result = base(*args, **kwargs)
        for level in levels:
            primals = tuple([_below(value, level) for value in args])
            ctx = _context(rules, make_node(primals), primals, kwargs, _below(result, level))
            given = [_tangents(value, level, ctx._materializes) for value in args]
            assert rules.jvp is not None
            _give(rules, result, rules.jvp(ctx, *given), ctx, level)
        if levels:
            _remember_tangents(result)
        return result

    return run


def _remember_tangents(result: Any) -> None:
    """Saves the tangents of results with the node, which saved the results before they had any."""
    for tensor in tensors_in([result]):
        if tensor._edge is None:
            continue
        node, number = unpack_edge(tensor._edge)
        kept: Any = getattr(node, "_kept", ())
        for place, (value, expected) in enumerate(kept):
            if type(value) is np.ndarray:
                value = output_from(value, expected)
                kept[place] = (value, 0)
            if isinstance(value, SavedOutput | Packed) and value.number == number:
                keep_tangents(value, tensor)


def _missing(rules: Rules) -> _Function:
    def run(*_: Any, **__: Any) -> Any:
        raise DerivativeMissingError(
            f"Trying to use forward AD with {rules.name}, which has no forward rule: its tangent "
            f"would be lost. Register one with register_jvp(jvp), where jvp(ctx, *tangents) "
            f"returns the tangents of the outputs."
        )

    return run


def _context(
    rules: Rules, ctx: Any, primals: tuple[Any, ...], kwargs: dict[str, Any], output: Any
) -> Any:
    """The `ctx` of the rule, as its setup leaves it."""
    setup = rules.jvp_context or rules.setup_context
    if setup is not None:
        state = get_state()
        try:
            set_state(USER_STATES[state])
            more = {"keyword_only_inputs": kwargs} if kwargs else {}
            setup(ctx=ctx, inputs=primals, output=output, **more)
        finally:
            set_state(state)
    saved = ctx._for_forward or ctx._to_save or ()
    ctx._kept = tuple((tensor, version(tensor)) for tensor in saved)
    return ctx


def _below(value: Any, level: Level) -> Any:
    if isinstance(value, Tensor):
        return below(value, level)
    if isinstance(value, list | tuple):
        return type(value)(_below(item, level) for item in value)
    return value


def _tangents(value: Any, level: Level, materializes: bool) -> Any:
    """The tangent of a tensor, zeros where it has none; of a list, those of its tensors."""
    if isinstance(value, list):
        if not any(isinstance(item, Tensor) for item in value):
            return None
        return [_tangents(item, level, materializes) for item in value]
    if not isinstance(value, Tensor):
        return None
    tangent = tangents_of(value).get(level)
    if tangent is None and materializes and value.dtype.kind in "fc":
        return zeros_like(value)
    return tangent


def _give(rules: Rules, result: Any, returned: Any, ctx: Any, level: Level) -> None:
    """Attaches the tangents that the rule returned to the results."""
    outputs = result if len(rules.schema.returns) != 1 else (result,)
    tangents = returned if isinstance(returned, tuple) else (returned,)
    where = f"the jvp of {rules.name}, registered at {rules.places['jvp']},"
    if len(tangents) != len(outputs):
        raise AutogradError(
            f"{where} returned an invalid number of forward gradients (expected {len(outputs)}, "
            f"got {len(tangents)}): one for each return of the operator"
        )
    for place, (output, tangent) in enumerate(zip(outputs, tangents, strict=True)):
        if not isinstance(output, list | tuple):
            _give_one(where, place, output, tangent, ctx, level)
            continue
        fits = isinstance(tangent, list | tuple) and len(tangent) == len(output)
        if not fits:
            raise AutogradError(
                f"{where} has to return a list of {len(output)} tangents at position {place}"
            )
        for tensor, part in zip(output, tangent, strict=True):
            _give_one(where, place, tensor, part, ctx, level)


def _give_one(where: str, place: int, output: Any, tangent: Any, ctx: Any, level: Level) -> None:
    constant = any(output is other for other in ctx._constant)
    if not isinstance(output, Tensor) or output.dtype.kind not in "fc" or constant:
        if tangent is not None:
            raise AutogradError(
                f"{where} returned a tangent at position {place}, where the output is not "
                f"differentiable; return None there"
            )
        return
    if tangent is None:
        tangent = zeros_like(output)
    if not isinstance(tangent, Tensor):
        raise AutogradError(
            f"{where} returned a {type(tangent).__name__} at position {place}; expected a Tensor "
            f"or None"
        )
    if tangent.shape != output.shape:
        raise AutogradError(
            f"{where} returned a tangent of shape {list(tangent.shape)} at position {place}, "
            f"where the output has shape {list(output.shape)}"
        )
    set_beside(output, level, tangent)
