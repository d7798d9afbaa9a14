"""Lowering of one operator: its value as primitive operations.

``lower_operator`` takes the operator and its arguments, with ``Value`` objects in the place of
tensors, and returns a ``Value`` or a list of them. It looks for a rule by hand (``rules.py``), then
for the expression in the operator's table (``expressions.py``). A view, or an operator that only
copies elements to other places, is its own kernel on an array of positions. Anything else raises
``CannotLower``.
"""

from __future__ import annotations

import functools
from math import prod
from typing import Any, NamedTuple

import numpy as np

from pullback._generated import lowerings
from pullback._generated.scipy_special import lowerings as special_lowerings
from pullback.compiled.lowering.expressions import NAMES, CannotLower, Value, evaluate
from pullback.compiled.lowering.rules import HELPERS, MOVES, RULES, move_elements
from pullback.errors import BindError
from pullback.fx.tracer import untraced
from pullback.tensor.tensor import Tensor, wrap

__all__ = [
    "LOWERINGS",
    "MOST_POSITIONS",
    "Parameters",
    "lower_operator",
    "operator_name",
    "parameters_of",
]

LOWERINGS = {**lowerings.LOWERINGS, **special_lowerings.LOWERINGS}
_CALLABLE = {**RULES, **HELPERS, **NAMES, "__builtins__": {}}  # by expressions
MOST_POSITIONS = 1 << 20
"""Elements of an array of positions."""


class Parameters(NamedTuple):
    """The parameters of an operator.

    Attributes:
        positional: the names of those that may be positional.
        defaults: the default of each one, in order; None for those without.
        tensors: the names of those that are tensors, optional tensors or lists of tensors.
    """

    positional: list[str]
    defaults: dict[str, Any]
    tensors: frozenset[str]


@functools.lru_cache(maxsize=1024)
def parameters_of(schema: Any) -> Parameters:
    """The parameters of a schema."""
    arguments = schema.arguments
    return Parameters(
        [a.name for a in arguments.flat_positional],
        {a.name: None if a.default is None else a.default_value() for a in arguments.flat_all},
        frozenset(a.name for a in arguments.flat_all if a.type.is_tensor_like()),
    )


def operator_name(target: Any) -> str:
    """The name of an operator, or of one inside vmap, with its overload if it has one."""
    operator = getattr(target, "operator", target)
    namespace, _, name = str(operator.name()).partition("::")
    return name if namespace == "pullback" else f"{namespace}::{name}"


def lower_operator(
    name: str, schema: Any, args: list[Any], kwargs: dict[str, Any], target: Any = None
) -> Any:
    """The value of an operator by its rule, its table or its kernel."""
    positional, defaults, _ = parameters_of(schema)
    given = dict(zip(positional, args, strict=False)) | kwargs
    arguments = {**defaults, **given}
    if name in RULES:
        try:
            return RULES[name](*arguments.values())
        except AttributeError as error:
            raise CannotLower("a number in the place of an array") from error
    text = LOWERINGS.get(name)
    if text is not None:
        return evaluate(text, _CALLABLE, arguments)
    if name in MOVES or schema.is_view:
        return _move(target, args, kwargs)
    raise CannotLower("no lowering")


def _move(target: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The elements of the first operand that an operator copies: its kernel moves their numbers."""
    x = args[0]
    others = (*args[1:], *kwargs.values())
    if not isinstance(x, Value) or any(map(_has_value, others)) or prod(x.shape) > MOST_POSITIONS:
        raise CannotLower("moved elements")
    numbers = wrap(np.arange(prod(x.shape)).reshape(x.shape))
    try:
        with untraced():
            found = target(numbers, *args[1:], **kwargs)
    except BindError as error:  # the kernel takes them: np.roll(x, 2.5)
        raise CannotLower("arguments of other types than the schema's") from error
    if isinstance(found, list | tuple):
        return [move_elements(x, _positions(item)) for item in found]
    return move_elements(x, _positions(found))


def _positions(found: Any) -> Any:
    array = np.asarray(found._array if isinstance(found, Tensor) else found)
    if array.dtype.kind != "i":
        raise CannotLower("moved elements of another dtype")
    return array


def _has_value(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_has_value, value))
    return isinstance(value, Value)
