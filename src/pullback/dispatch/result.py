"""Checks what a kernel returned against the returns of its schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.errors import KernelResultError
from pullback.schema import BaseTy, BaseType, FunctionSchema, Type
from pullback.schema.bind import MismatchError, converter

__all__ = ["result_checker"]


def result_checker(schema: FunctionSchema, name: str) -> Callable[[Any], Any]:
    """A function that gives a kernel's result the schema's form, or raises.

    No returns give None, one gives the value itself, several give a tuple.
    """
    types = [ret.type for ret in schema.returns]
    casts = [_cast(type_, name) for type_ in types]
    if len(casts) == 1:
        return casts[0]

    def check_none(value: Any) -> None:
        if value is not None:
            raise KernelResultError(
                f"{name}: the schema has no returns, so the kernel is expected to return None, but "
                f"it returned {_shorten_repr(value)}"
            )

    def check_several(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, tuple | list) or len(value) != len(casts):
            raise KernelResultError(
                f"{name}: the schema returns {len(casts)} values ({', '.join(map(str, types))}), "
                f"but the kernel returned {_shorten_repr(value)}; return a tuple of {len(casts)}"
            )
        return tuple(cast(item) for cast, item in zip(casts, value, strict=True))

    return check_several if casts else check_none


def _cast(type_: Type, name: str) -> Callable[[Any], Any]:
    convert = converter(type_)
    tensor = type_ == BaseType(BaseTy.Tensor)

    def cast(value: Any) -> Any:
        if tensor and value is None:
            return None  # a tensor that the kernel leaves undefined
        try:
            return convert(value)
        except MismatchError:
            raise KernelResultError(
                f"{name}: Unable to cast {_shorten_repr(value)} to {type_}: the kernel returned a "
                f"{type(value).__name__}, and the schema returns {type_}"
            ) from None

    return cast


def _shorten_repr(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
