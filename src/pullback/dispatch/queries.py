"""Queries of the registry: operators, kernels, and the explanation of a call."""

from __future__ import annotations

from typing import Any

from pullback.dispatch import registry
from pullback.dispatch.explanation import Explanation
from pullback.dispatch.keys import KeyLike, parse_key
from pullback.dispatch.operator import OpOverload, OpOverloadPacket, operator_named
from pullback.dispatch.table import Kernel
from pullback.errors import (
    DispatchKeyError,
    KernelNotFoundError,
    OperatorNotFoundError,
    message_of,
)

__all__ = ["explain", "find_dangling_impls", "get_kernel", "get_operator"]


def get_operator(op: str | OpOverload | OpOverloadPacket) -> OpOverload:
    """The operator of a qualified name such as ``"ns::op"`` or ``"ns::op.overload"``.

    >>> get_operator("nowhere::f")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    pullback.errors.OperatorNotFoundError: no operator 'nowhere::f' is defined...
    """
    if isinstance(op, OpOverload):
        return op
    if isinstance(op, OpOverloadPacket):
        names = op.overloads()
        if len(names) != 1:
            raise OperatorNotFoundError(
                f"{op!r} has {len(names)} overloads ({', '.join(names)}); name one of them"
            )
        return getattr(op, names[0])  # type: ignore[no-any-return]
    if not isinstance(op, str):
        raise OperatorNotFoundError(
            f"an operator is named by a str such as 'ns::op.overload', not {op!r}"
        )
    return operator_named(op)


def get_kernel(op: str | OpOverload, dispatch_key: KeyLike) -> Kernel:
    """The kernel that an operator's computed table holds at a runtime key.

    >>> from pullback.dispatch import Library
    >>> with Library("kernels", "DEF") as lib:
    ...     _ = lib.define("f(Tensor x) -> Tensor")
    ...     _ = lib.impl("f", lambda x: x, "CompositeExplicitAutograd")
    ...     get_kernel("kernels::f", "CPU").key
    DispatchKey.CompositeExplicitAutograd
    """
    try:
        key = parse_key(dispatch_key)
    except DispatchKeyError as error:
        raise DispatchKeyError(f"Invalid dispatch key: {message_of(error)}") from None
    if key.is_alias:
        raise DispatchKeyError(
            f"Invalid dispatch key: {key.name} is an alias key; ask for a runtime key"
        )
    operator = get_operator(op)
    found = operator.dispatch_table().get(key)
    if found is None or found.kernel is None:
        raise KernelNotFoundError(f"{operator.name()}: no kernel for {key.name}")
    return found.kernel


def find_dangling_impls() -> list[str]:
    """The names of operators that have kernels but no definition.

    >>> find_dangling_impls()
    []
    """
    return [entry.name for entry in registry.all_entries() if not entry.is_defined]


def explain(op: str | OpOverload | OpOverloadPacket, *args: Any, **kwargs: Any) -> Explanation:
    """Explains which kernel a call of an operator would run; calls nothing.

    >>> from pullback.dispatch import Library
    >>> with Library("why", "DEF") as lib:
    ...     _ = lib.define("f(Tensor[] xs) -> Tensor")
    ...     _ = lib.impl("f", lambda xs: None, "CompositeExplicitAutograd")
    ...     explain("why::f", []).entry.provenance
    'default backend kernel'
    """
    known = op if isinstance(op, OpOverloadPacket) else get_operator(op)
    return known.explain(*args, **kwargs)
