"""Schemas from type hints: ``infer_schema``.

A kernel is a plain Python function; its hints say almost everything that a schema does. What they
cannot say is which tensors are written to, and that the caller adds as `mutates_args`.
"""

from __future__ import annotations

import collections.abc
import inspect
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NewType

import numpy as np

from pullback.errors import OperatorDefinitionError, message_of
from pullback.tensor.tensor import Tensor

__all__ = ["Device", "infer_schema"]

Device = NewType("Device", str)
"""The hint of an argument that names a device, such as ``"cpu"``."""

_Number = (int | float | bool, int | float | complex | bool, int | float)

# What a hint is called in a schema; a list is made of those that _IN_LISTS names.
_NAMES: dict[Any, str] = {
    Tensor: "Tensor",
    int: "SymInt",
    float: "float",
    bool: "bool",
    str: "str",
    np.dtype: "ScalarType",
    Device: "Device",
}
_IN_LISTS = {"Tensor": "Tensor", "SymInt": "SymInt", "float": "float", "bool": "bool"}
_IN_LISTS["Scalar"] = "Scalar"
_OPTIONAL_LISTS = ("SymInt", "float", "bool")
_RETURNS = ("Tensor", "SymInt", "float", "bool", "Scalar", "Tensor[]")
_LISTS = (list, collections.abc.Sequence)


def infer_schema(
    prototype_function: Callable[..., Any],
    /,
    *,
    mutates_args: Iterable[str] | str,
    op_name: str | None = None,
    tags: Sequence[str] = (),
) -> str:
    """The schema of a function with type hints, as text.

    Args:
        prototype_function: every parameter and the result need a hint.
        mutates_args: the names of the tensors that the function writes to; ``"unknown"`` for all.
        op_name: put before the arguments.
        tags: ``"inplace"`` and ``"out"`` say which written tensors are returned.

    >>> import pullback as pb
    >>> def scaled(x: pb.Tensor, by: float = 2.0, *, axes: list[int] | None = None) -> pb.Tensor:
    ...     ...
    >>> infer_schema(scaled, mutates_args=(), op_name="scaled")
    'scaled(Tensor x, float by=2.0, *, SymInt[]? axes=None) -> Tensor'
    """
    fn = prototype_function
    signature = inspect.signature(fn)
    hints = _hints(fn)
    written = _written(mutates_args)
    params: list[str] = []
    found: set[str] = set()
    starred = False
    for place, parameter in enumerate(signature.parameters.values()):
        name = parameter.name
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise _refused(
                fn,
                f"We do not support positional-only args, varargs, or varkwargs: {name!r} is one; "
                f"give every parameter a name that may be used as a keyword",
            )
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            params.append("*")
            starred = True
        type_ = _parameter_type(fn, name, parameter, hints)
        if written is None or name in written:
            type_ = _marked(fn, type_, name, place, explicit=written is not None)
            found.add(name)
        params.append(f"{type_} {name}{_default(fn, parameter)}")
    missing = [] if written is None else sorted(written - found)
    if missing:
        raise _refused(
            fn,
            f"{', '.join(map(repr, missing))} in mutates_args were not found in the custom op's "
            f"signature; its parameters are {', '.join(map(repr, signature.parameters))}",
        )
    returns = _returns(fn, signature, hints, tags, params)
    return f"{op_name or ''}({', '.join(params)}) -> {returns}"


def _refused(fn: Callable[..., Any], why: str) -> OperatorDefinitionError:
    name = getattr(fn, "__name__", repr(fn))
    return OperatorDefinitionError(f"infer_schema(func): {name}: {why}")


def _hints(fn: Callable[..., Any]) -> dict[str, Any]:
    """Hints as objects: those written as text are evaluated where the function was defined."""
    fn = inspect.unwrap(fn)
    hints = dict(getattr(fn, "__annotations__", {}))
    scope = dict(getattr(fn, "__globals__", {}))
    closure = getattr(fn, "__closure__", None) or ()
    names = getattr(getattr(fn, "__code__", None), "co_freevars", ())
    for free, cell in zip(names, closure, strict=True):
        if cell is not None:
            scope[free] = cell.cell_contents
    for name, hint in hints.items():
        while isinstance(hint, str):
            try:
                hints[name] = hint = eval(hint, scope)
            except Exception as error:
                raise _refused(
                    fn, f"unsupported type annotation {hint!r} of {name!r}: {message_of(error)}"
                ) from None
    return hints


def _written(mutates_args: Iterable[str] | str) -> set[str] | None:
    """The names to mark; None stands for every tensor."""
    if isinstance(mutates_args, str):
        if mutates_args == "unknown":
            return None
        raise OperatorDefinitionError(
            f"mutates_args must be a collection of names or the text 'unknown', not the text "
            f"{mutates_args!r}; write ({mutates_args!r},)"
        )
    return set(mutates_args)


def _parameter_type(
    fn: Callable[..., Any], name: str, parameter: inspect.Parameter, hints: dict[str, Any]
) -> str:
    if parameter.annotation is inspect.Parameter.empty:
        raise _refused(fn, f"Parameter {name} must have a type annotation")
    hint = hints[name]
    if typing.get_origin(hint) is tuple or hint is tuple:
        raise _refused(
            fn,
            f"Parameter {name} has unsupported type {hint}. We do not support Tuple inputs in "
            f"schema. Please use List instead",
        )
    found = _type_name(hint)
    if found is None:
        raise _refused(
            fn,
            f"Parameter {name} has unsupported type {hint}. Use Tensor, int, float, bool, str, "
            f"number, dtype or device, an Optional of one, or a List of tensors or numbers",
        )
    return found


def _type_name(hint: Any) -> str | None:
    """The type of a hint in a schema; None if there is no such type."""
    plain = _base_name(hint)
    if plain is not None:
        return plain
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        rest = [arg for arg in typing.get_args(hint) if arg is not type(None)]
        if len(rest) == len(typing.get_args(hint)):
            return None
        inner = rest[0] if len(rest) == 1 else typing.Union[tuple(rest)]  # noqa: UP007
        name = _base_name(inner)
        if name is not None:
            return f"{name}?"
        name = _list_element(inner)
        return f"{name}[]?" if name in _OPTIONAL_LISTS else None
    name = _list_element(hint)
    return None if name is None else f"{name}[]"


def _base_name(hint: Any) -> str | None:
    if hint in _Number or getattr(hint, "__name__", None) in ("Number", "Scalar"):
        return "Scalar"
    if typing.get_origin(hint) is np.dtype:
        return "ScalarType"
    if isinstance(hint, type) and issubclass(hint, Tensor):
        return "Tensor"
    try:
        return _NAMES.get(hint)
    except TypeError:  # a hint that cannot be hashed
        return None


def _list_element(hint: Any) -> str | None:
    args = typing.get_args(hint)
    if typing.get_origin(hint) not in _LISTS or len(args) != 1:
        return None
    name = _base_name(args[0])
    if name is not None:
        return _IN_LISTS.get(name)
    return "Tensor?" if _type_name(args[0]) == "Tensor?" else None


def _marked(fn: Callable[..., Any], type_: str, name: str, place: int, *, explicit: bool) -> str:
    """The type with the mark of a written tensor."""
    if not type_.startswith("Tensor"):
        if not explicit:
            return type_
        raise _refused(
            fn,
            f"parameter {name!r} is in mutates_args, but it is no tensor: only Tensors or "
            f"collections of Tensors can be mutated",
        )
    return f"Tensor(a{place}!){type_.removeprefix('Tensor')}"


def _default(fn: Callable[..., Any], parameter: inspect.Parameter) -> str:
    value = parameter.default
    if value is inspect.Parameter.empty:
        return ""
    if value is None or isinstance(value, int | float | bool):
        return f"={value!r}"
    if isinstance(value, str):
        return f'="{value}"'
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return f"={np.dtype(value).name}"
    raise _refused(
        fn,
        f"parameter {parameter.name!r} has an unsupported default value type "
        f"{type(value).__name__}: {value!r}. A default is None, a number, a bool, a str or a dtype",
    )


def _returns(
    fn: Callable[..., Any],
    signature: inspect.Signature,
    hints: dict[str, Any],
    tags: Sequence[str],
    params: list[str],
) -> str:
    if signature.return_annotation is inspect.Signature.empty:
        raise _refused(fn, "No return type annotation was provided; write -> Tensor")
    hint = hints["return"]
    if "inplace" in tags or "out" in tags:
        marked = [text.partition(")")[0] + ")" for text in params if "!)" in text]
        return marked[0] if len(marked) == 1 else f"({', '.join(marked)})"
    if hint is None or hint is type(None):
        return "()"
    if typing.get_origin(hint) is tuple:
        args = typing.get_args(hint)
        texts = [_return_type(fn, arg) for arg in args if arg is not Ellipsis]
        if len(texts) != len(args):
            raise _refused(fn, f"return has unsupported type {hint}: a tuple of fixed length only")
        return f"(({texts[0]}))" if len(texts) == 1 else f"({', '.join(texts)})"
    return _return_type(fn, hint)


def _return_type(fn: Callable[..., Any], hint: Any) -> str:
    name = _type_name(hint) if typing.get_origin(hint) is not collections.abc.Sequence else None
    if name not in _RETURNS:
        raise _refused(
            fn,
            f"return has unsupported type {hint}. A function returns Tensor, List[Tensor], int, "
            f"float, bool, number, a tuple of these, or None",
        )
    return name
