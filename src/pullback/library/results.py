"""Gives the results of a recorded call their history: the node, and which output each one is."""

from __future__ import annotations

from typing import Any

from pullback.autograd.graph.node import describe_all, edge_to
from pullback.autograd.graph.views import view_of
from pullback.dispatch.keys import PLAIN_VIEW, REQUIRES_GRAD
from pullback.errors import AutogradError
from pullback.library.rules import Rules
from pullback.tensor.meta import Creation
from pullback.tensor.tensor import Tensor, share_counter, version_of, wrap

__all__ = ["attach_all"]


def _attached(node: Any, number: int, tensor: Tensor) -> Tensor:
    """A result with the node as its history; one that has a history already is wrapped anew."""
    if tensor._array.dtype.kind not in "fc":
        return tensor
    view = view_of(tensor)
    if view is not None and view.creation is Creation.CUSTOM:
        view.edge = edge_to(node, number)
        view.base_edge = view.base._edge
        view.version = version_of(tensor)[0]
    elif tensor._edge is None and view is None and not tensor._flags & REQUIRES_GRAD:
        tensor._edge = edge_to(node, number)
    else:
        replaced = node._to_save
        copy = wrap(tensor._array)
        share_counter(copy, tensor)
        copy._edge = edge_to(node, number)
        if replaced is not None:
            node._to_save = tuple(copy if kept is tensor else kept for kept in replaced)
        tensor = copy
    tensor._flags = tensor._flags & ~PLAIN_VIEW | REQUIRES_GRAD
    return tensor


def attach_all(rules: Rules, node: Any, result: Any) -> Any:
    """Gives every differentiable tensor of a result its history."""
    several = len(rules.schema.returns) != 1
    values = list(result) if several else [result]
    flat: list[Any] = []
    made: list[Any] = []
    for ret, value in zip(rules.schema.returns, values, strict=True):
        if not ret.type.is_tensor_like():
            made.append(None)
        elif isinstance(value, list | tuple):
            made.append(len(value))
            flat.extend(value)
        else:
            made.append(True)
            flat.append(value)
    node._made = tuple(made)
    _describe(node, flat)
    flags = _differentiable(rules, values, made)
    numbers = iter(enumerate(flat))

    def given(wanted: bool) -> Any:
        number, tensor = next(numbers)
        constant = any(tensor is other for other in node._constant)
        if not wanted or constant or not isinstance(tensor, Tensor):
            return tensor
        return _attached(node, number, tensor)

    for place, kind in enumerate(made):
        if kind is True:
            values[place] = given(flags[place])
        elif kind is not None:
            values[place] = [given(flags[place]) for _ in range(kind)]
    return tuple(values) if several else values[0]


def _differentiable(rules: Rules, values: list[Any], made: list[Any]) -> tuple[bool, ...]:
    flags = rules.differentiable
    if flags is None:
        return tuple(kind is not None for kind in made)
    for place, (flag, kind) in enumerate(zip(flags, made, strict=True)):
        if flag and kind is None:
            raise AutogradError(
                f"{rules.name}: output_differentiability is True for return {place}, which is a "
                f"{type(values[place]).__name__}: only tensors can be differentiated, so this "
                f"output cannot have be marked as differentiable. Write False there."
            )
    return flags


def _describe(node: Any, flat: list[Any]) -> None:
    node._outputs = len(flat)
    describe_all(node, [t if isinstance(t, Tensor) else None for t in flat])
