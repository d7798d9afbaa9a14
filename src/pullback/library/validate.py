"""Checks of the names of custom operators, and of schemas for rules."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from pullback.dispatch import DispatchKey, OpOverload
from pullback.dispatch.functional import DEVICES
from pullback.errors import (
    DispatchKeyError,
    OperatorDefinitionError,
    RegistrationError,
    UnsupportedSchemaError,
)
from pullback.schema import FunctionSchema

__all__ = [
    "RESERVED",
    "check_differentiability",
    "check_function",
    "check_keyword_tensors",
    "check_named_gradients",
    "check_positional_gradients",
    "check_signature",
    "check_written",
    "device_keys",
    "parse_qualname",
]

RESERVED = ("prim", "prims", "aten", "at", "torch", "pytorch", "pullback")
_RETURNS = ("int", "SymInt", "bool", "float", "Tensor", "Tensor[]")


def parse_qualname(qualname: Any) -> tuple[str, str]:
    """Namespace and name of ``ns::op``, which may have an overload."""
    parts = qualname.split("::") if isinstance(qualname, str) else []
    if len(parts) != 2 or not all(parts):
        raise OperatorDefinitionError(
            f"custom_op: Expected there to be a namespace and one '::' in the name, as in "
            f"'mylib::my_op', but got {qualname!r}"
        )
    namespace, name = parts
    if "." in namespace:
        raise OperatorDefinitionError(
            f"custom_op({qualname!r}): expected ns to not contain any . (a namespace is one "
            f"identifier), but got {namespace!r}"
        )
    if namespace in RESERVED:
        raise OperatorDefinitionError(
            f"custom_op({qualname!r}): {namespace!r} is a reserved namespace; choose one of your "
            f"own, such as your package's name"
        )
    return namespace, name


def check_function(qualname: str, fn: Any) -> None:
    """A custom operator is made from a plain function, whose signature can be read."""
    if not inspect.isfunction(fn):
        raise OperatorDefinitionError(
            f"custom_op({qualname!r}): Expected `func` to be a Python function, but got "
            f"{type(fn).__name__}: {fn!r:.60}"
        )


def check_signature(qualname: str, fn: Callable[..., Any], schema: FunctionSchema) -> None:
    """A function that comes with a schema has to have the schema's parameters."""
    given = inspect.signature(fn).parameters.values()
    plain = [p.name for p in given if p.kind is p.POSITIONAL_OR_KEYWORD]
    keyword = [p.name for p in given if p.kind is p.KEYWORD_ONLY]
    if len(plain) + len(keyword) != len(given):
        raise OperatorDefinitionError(
            f"custom_op({qualname!r}): positional-only parameters, varargs, and kwargs are not "
            f"supported; name every argument of the schema"
        )
    positional = [a.name for a in schema.arguments.flat_positional]
    rest = [a.name for a in schema.arguments.flat_all][len(positional) :]
    if plain != positional or keyword != rest:
        raise OperatorDefinitionError(
            f"custom_op({qualname!r}): expected the function's signature to match `schema`: the "
            f"same names in the same order, and the same keyword-only ones. The function has "
            f"({', '.join([*plain, *(['*'] if keyword else []), *keyword])}), the schema is "
            f"{schema}"
        )


def check_written(qualname: str, schema: FunctionSchema, mutates_args: Iterable[str] | str) -> None:
    """Raises unless the schema marks exactly the arguments of `mutates_args` as written to."""
    if mutates_args == "unknown":
        return
    marked = {a.name for a in schema.arguments.flat_all if a.is_write}
    if marked != set(mutates_args):
        raise OperatorDefinitionError(
            f"custom_op({qualname!r}): the schema marks {sorted(marked)} as written to, but "
            f"mutates_args is {sorted(mutates_args)}; make these consistent. Schema: {schema}"
        )


def check_keyword_tensors(qualname: str, schema: FunctionSchema) -> None:
    """Gradients and dispatch go by position, so tensors have to come by position."""
    count = len(schema.arguments.flat_positional)
    found = [a.name for a in schema.arguments.flat_all[count:] if a.type.is_tensor_like()]
    if found:
        raise UnsupportedSchemaError(
            f"{qualname}: keyword-only tensor arguments ({', '.join(found)}) are not supported "
            f"here; make them positional, or tag the operator 'out' if it writes to them"
        )


def device_keys(device_types: Any, qualname: str) -> list[DispatchKey]:
    """The backend keys of device names; None stands for the key of all of them."""
    if device_types is None:
        return [DispatchKey.CompositeExplicitAutograd]
    names = [device_types] if isinstance(device_types, str) else list(device_types)
    for name in names:
        if name not in DEVICES:
            raise DispatchKeyError(
                f"{qualname}: we only support device_type among those that exist. Expected one of "
                f"{', '.join(DEVICES)} but got {name!r}"
            )
    return [DEVICES[name] for name in names]


def check_positional_gradients(operator: OpOverload, *, is_view_allowed: bool) -> None:
    """Whether ``register_autograd`` and ``register_jvp`` have a meaning for a schema."""
    schema = operator.schema
    name = operator.name()
    if "out" in operator.tags:
        raise RegistrationError(
            f"Cannot register autograd formula for {name}: it is tagged 'out', and functions with "
            f"out=... arguments don't support automatic differentiation"
        )
    if schema.is_mutable or (schema.is_view and not is_view_allowed):
        raise RegistrationError(
            f"Cannot register autograd formula for non-functional operator {name} with schema "
            f"{schema}. Write a functional operator, register its formula, and copy the result."
        )
    if schema.is_view:
        tensors = [a for a in schema.arguments.flat_all if a.type.is_tensor_like()]
        if len(tensors) != 1 or len(schema.returns) != 1:
            raise RegistrationError(
                f"Cannot register autograd formula for {name}: a view has one tensor argument and "
                f"one tensor return, and its schema is {schema}"
            )
    check_keyword_tensors(name, schema)


def check_named_gradients(operator: OpOverload, what: str) -> None:
    """Whether gradients by name have a meaning for a schema."""
    schema, name = operator.schema, operator.name()
    start = f"Cannot use {what} to register backward formula for"
    if schema.is_mutable:
        raise RegistrationError(f"{start} non-functional operator {name}: {schema}")
    if not schema.returns:
        raise RegistrationError(f"{start} operator with no returns {name}: {schema}")
    if schema.is_view:
        raise RegistrationError(f"{start} operator that returns views {name}: {schema}")
    for ret in schema.returns:
        if str(ret.type) not in _RETURNS:
            raise RegistrationError(
                f"{start} operator with return not in {{{', '.join(_RETURNS)}}} {name}: {schema}"
            )
    check_keyword_tensors(name, schema)


def check_differentiability(name: str, flags: Any, returns: int) -> tuple[bool, ...] | None:
    """`output_differentiability` as a tuple; None where nothing was said."""
    if flags is None:
        return None
    fits = isinstance(flags, list) and all(type(flag) is bool for flag in flags)
    if not fits or len(flags) != returns:
        raise RegistrationError(
            f"impl_backward({name}): expected output_differentiability to be a list of bools with "
            f"one entry for each of the {returns} return(s), but got {flags!r}"
        )
    return tuple(flags)
