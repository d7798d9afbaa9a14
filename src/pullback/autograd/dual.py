"""Tangents: forward-mode derivatives that travel with the tensors.

A tensor with the flag DUAL carries a tangent. Calls with such a tensor are linked to the kernel
below: the operator runs as ever, then its forward formula runs on the primals and tangents, as
ordinary operators, so that tangents can be differentiated in their turn.

Tangents live as long as the level that they were made in; a level knows its dual tensors weakly,
and takes the tangents of those that are left when it ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref

import numpy as np

from pullback.autograd.namespaces import tensors
from pullback.autograd.view import edge_of
from pullback.dispatch.keys import DUAL, REQUIRES_GRAD
from pullback.errors import DerivativeMissingError
from pullback.tensor.meta import View
from pullback.tensor.payload import Payload
from pullback.tensor.tensor import Tensor, meta_of, wrap

__all__ = ["Function", "dual_kernel", "end_level", "primal_of", "set_tangent", "tangent_of"]

_duals: list[ref[Tensor]] = []  # the dual tensors of the level in force

Function = Callable[..., Any]


def tangent_of(tensor: Tensor) -> Tensor | None:
    """The tensor's tangent, if it has one."""
    return tensor._meta.tangent if tensor._flags & DUAL and tensor._meta is not None else None


def set_tangent(tensor: Tensor, tangent: Tensor) -> None:
    """Makes a tensor dual."""
    meta_of(tensor).tangent = tangent
    if not tensor._flags & DUAL:
        tensor._flags |= DUAL
        _duals.append(ref(tensor))


def end_level() -> None:
    """Takes the tangents of every tensor that still has one."""
    while _duals:
        tensor = _duals.pop()()
        if tensor is not None:
            tensor._flags &= ~DUAL
            meta_of(tensor).tangent = None


def primal_of(tensor: Tensor) -> Tensor:
    """The same value in the same place of the graph, without the tangent."""
    if not tensor._flags & DUAL:
        return tensor
    primal = wrap(tensor._array)
    primal._flags = tensor._flags & ~DUAL
    primal._counter = tensor._counter
    if tensor._flags & REQUIRES_GRAD:
        primal._edge = edge_of(tensor)
    return primal


def dual_kernel(
    name: str, base: Function, jvp: Function | None, places: tuple[int, ...], written: bool
) -> Function:
    """Runs an operator and its forward formula.

    `places` are the positions of the arguments that may have tangents; `written` says that the
    first argument is written to, so that the formula needs what it was before.
    """
    if jvp is None:
        raise DerivativeMissingError(
            f"Trying to use forward AD with {name}, which does not support it because it has not "
            f"been implemented yet"
        )

    def call(*args: Any, **kwargs: Any) -> Any:
        values = [*args, *kwargs.values()]
        tangents = [_tangents(values[place]) for place in places]
        primals = [_primals(value) for value in values]
        if written:
            primals[0] = tensors.clone(primals[0])
        results = base(*args, **kwargs)
        outputs = results if isinstance(results, tuple) else (results,)
        plain = [_primals(output) for output in outputs]
        found = jvp(tensors, *primals, *tangents, *plain)
        for output, tangent in zip(
            outputs, found if isinstance(results, tuple) else (found,), strict=True
        ):
            _give(output, tangent, written)
        return results

    return call


def _primals(value: Any) -> Any:
    if isinstance(value, Tensor):
        return primal_of(value)
    if isinstance(value, list):
        return [_primals(item) for item in value]
    return value


def _tangents(value: Any) -> Any:
    """The tangent of a value, zeros where it has none."""
    if isinstance(value, list):
        return [_tangents(item) for item in value]
    if not isinstance(value, Tensor):
        return None
    tangent = tangent_of(value)
    return _zeros(value) if tangent is None else tangent


def _zeros(value: Tensor) -> Tensor:
    if isinstance(value._array, Payload):
        return tensors.zeros_like(value)  # type: ignore[no-any-return]
    return wrap(np.zeros(value.shape, value.dtype))


def _give(output: Any, tangent: Any, written: bool) -> None:
    if isinstance(output, list):
        for item, part in zip(output, tangent, strict=True):
            _give(item, part, written)
        return
    if tangent is None or not isinstance(output, Tensor) or output.dtype.kind not in "fc":
        return
    if tangent.shape != output.shape:
        tangent = tensors.broadcast_to(tangent, list(output.shape))
    held = tangent_of(output) if written else None
    view = output._meta.view if written and output._meta is not None else None
    if held is not None and held.shape == tangent.shape:
        # The tangent that the user handed in follows the write, and so does that of a view's base,
        # whose memory it shares.
        tensors.copy_(held, tangent)
    elif view is not None:
        _write_through(output, view, tangent)
    else:
        set_tangent(output, tangent)


def _write_through(output: Tensor, view: View, tangent: Tensor) -> None:
    """A write to a view changes that part of its base's tangent; the rest is as it was, or zero."""
    base = view.base
    whole = tangent_of(base)
    if whole is None:
        whole = _zeros(base)
        set_tangent(base, whole)
    part = view.replay(tensors, whole)
    tensors.copy_(part, tangent)
    set_tangent(output, part)
