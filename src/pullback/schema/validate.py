"""Rules that tie the parts of a strict schema together, checked after it has been read.

They make every variant of an operator recognisable from its schema alone: where results go, what
is written to and what is returned. Each fault names the place it is found at, and ``parse.py``
turns the place into a caret. The loose dialect has none of these rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pullback.schema.model import SCRATCH_PREFIX, FunctionSchema, SchemaKind
from pullback.schema.types import BaseTy, BaseType

__all__ = ["Fault", "Place", "faults"]

# ("name" | "overload" | "returns", 0), ("argument", its name) or ("return", its index)
Place = tuple[str, str | int]

_TENSOR = BaseType(BaseTy.Tensor)


@dataclass(frozen=True, slots=True)
class Fault:
    """One broken rule, and where the text breaks it."""

    message: str
    place: Place


def faults(schema: FunctionSchema) -> Iterator[Fault]:
    """Every rule that ``schema`` breaks, in no particular order.

    >>> from pullback.schema import parse_schema
    >>> broken = parse_schema("relu_(Tensor self) -> Tensor", dialect="loose")
    >>> [fault.place for fault in faults(broken)]
    [('argument', 'self'), ('return', 0)]
    """
    yield from _argument_faults(schema)
    yield from _return_faults(schema)
    if schema.arguments.out:
        yield from _out_faults(schema)
    if schema.name.name.inplace:
        yield from _inplace_faults(schema)


def _argument_faults(schema: FunctionSchema) -> Iterator[Fault]:
    arguments = schema.arguments
    for argument in arguments.pre_self_positional:
        if argument.is_write:
            yield Fault(
                f"argument '{argument.name}' is written to and must come after 'self'",
                ("argument", argument.name),
            )
    functional = schema.kind() is SchemaKind.functional
    if arguments.tensor_options is not None and not functional:
        yield Fault(
            f"tensor options belong to functional schemas, and this one is {schema.kind().value}",
            ("argument", arguments.tensor_options.dtype.name),
        )
    if schema.is_functional_fn() and not functional:
        yield Fault(
            "an overload name with 'functional' in it belongs to a functional schema, "
            f"and this one is {schema.kind().value}",
            ("overload", 0),
        )


def _return_faults(schema: FunctionSchema) -> Iterator[Fault]:
    arguments, returns = schema.arguments, schema.returns
    positional = {a.annotation: a.name for a in arguments.post_self_positional if a.is_write}
    returnable = {a.annotation for a in arguments.out}
    if arguments.self_arg is not None:
        returnable.add(arguments.self_arg.annotation)
    for index, returned in enumerate(returns):
        if returned.is_write != returns[0].is_write:
            yield Fault("either all returns are written arguments or none is", ("return", index))
        if returned.is_write and returned.annotation in positional:
            yield Fault(
                f"the written positional argument '{positional[returned.annotation]}' must not be "
                "returned; only 'self' and keyword-only outputs are",
                ("return", index),
            )
        elif returned.is_write and returned.annotation not in returnable:
            yield Fault(
                f"the written return '{returned}' must be 'self' or a keyword-only output; "
                "is a '*' missing before the output?",
                ("return", index),
            )


def _out_faults(schema: FunctionSchema) -> Iterator[Fault]:
    out, returns = schema.arguments.out, schema.returns
    if schema.name.name.inplace:
        yield Fault(
            "an in-place operator cannot have keyword-only outputs", ("argument", out[0].name)
        )
    for index, (argument, returned) in enumerate(zip(out, returns, strict=False)):
        if argument.annotation != returned.annotation:
            yield Fault(
                f"return {index} must have the annotation of output '{argument.name}' "
                f"({argument.annotation})",
                ("return", index),
            )
    if any(argument.type != _TENSOR for argument in out):
        if returns:
            yield Fault("an operator with a list among its outputs returns ()", ("returns", 0))
        return
    expected = sum(not argument.name.startswith(SCRATCH_PREFIX) for argument in out)
    if len(returns) != expected:
        yield Fault(
            f"expected one return for each of the {expected} output(s) but found {len(returns)}",
            ("return", expected) if expected < len(returns) else ("returns", 0),
        )


def _inplace_faults(schema: FunctionSchema) -> Iterator[Fault]:
    self_arg, returns = schema.arguments.self_arg, schema.returns
    if self_arg is None:
        yield Fault("an in-place operator needs an argument 'self'", ("name", 0))
        return
    if not self_arg.is_write:
        yield Fault(
            "the argument 'self' of an in-place operator must be written to: Tensor(a!) self",
            ("argument", "self"),
        )
    if self_arg.type != _TENSOR:
        if returns:
            yield Fault(
                "an in-place operator returns () unless its 'self' is a plain Tensor",
                ("returns", 0),
            )
    elif len(returns) != 1:
        yield Fault("an in-place operator returns 'self' and nothing else", ("returns", 0))
    elif returns[0].annotation != self_arg.annotation or not returns[0].is_write:
        yield Fault(
            f"an in-place operator returns 'self', with its annotation ({self_arg.annotation})",
            ("return", 0),
        )
