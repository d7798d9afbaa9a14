"""The flags of a call's arguments: what they add to the key set that the call dispatches with.

For callers off the hot path. The compiled call functions of ``calling.py`` do the same inline.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pullback.schema import FunctionSchema

__all__ = ["argument_flags", "flag_collector"]


def argument_flags(
    schema: FunctionSchema, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, int]:
    """The flags of each dispatch argument of a complete call; a list counts as one argument."""
    names = [argument.name for argument in schema.arguments.flat_positional]
    values = dict(zip(names, args, strict=True)) | dict(kwargs)
    return {name: _flags(values[name]) for name in schema.dispatch_arguments}


def flag_collector(schema: FunctionSchema) -> Callable[[Sequence[Any], Mapping[str, Any]], int]:
    """A function of the arguments of a complete call, which unites the flags of all of them."""
    names = [argument.name for argument in schema.arguments.flat_positional]
    places = [place for place, name in enumerate(names) if name in schema.dispatch_arguments]
    by_keyword = [name for name in schema.dispatch_arguments if name not in names]

    def collect(args: Sequence[Any], kwargs: Mapping[str, Any]) -> int:
        total = 0
        for place in places:
            total |= _flags(args[place])
        for name in by_keyword:
            total |= _flags(kwargs[name])
        return total

    return collect


def _flags(value: Any) -> int:
    if value is None:
        return 0
    if isinstance(value, list | tuple):
        total = 0
        for element in value:
            total |= _flags(element)
        return total
    flags: int = value._flags
    return flags
