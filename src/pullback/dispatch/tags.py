"""Tags: what the author of an operator promises beyond its schema.

``inplace`` and ``out`` promise which written arguments are returned, so that callers need not
guess; the schema has to say the same. Other tags are kept and mean nothing here.
"""

from __future__ import annotations

from collections.abc import Iterable

from pullback.errors import OperatorDefinitionError
from pullback.schema import BaseTy, BaseType, FunctionSchema

__all__ = ["check_tags"]

_TENSOR = BaseType(BaseTy.Tensor)


def check_tags(schema: FunctionSchema, tags: Iterable[str]) -> tuple[str, ...]:
    """The tags, if the schema keeps what they promise."""
    if isinstance(tags, str):
        tags = (tags,)
    tags = tuple(tags)
    for tag in tags:
        if not isinstance(tag, str):
            raise OperatorDefinitionError(f"{schema.name}: a tag is a str, not {tag!r}")
    if "inplace" in tags and "out" in tags:
        raise OperatorDefinitionError(
            f"{schema.name}: the tags 'inplace' and 'out' exclude each other; keep one"
        )
    problem = ""
    if "inplace" in tags:
        problem = _inplace_problem(schema)
    elif "out" in tags:
        problem = _out_problem(schema)
    if problem:
        tag = "inplace" if "inplace" in tags else "out"
        raise OperatorDefinitionError(
            f"{schema.name}: {problem}, which the tag {tag!r} demands. Declaration: {schema}"
        )
    return tags


def _inplace_problem(schema: FunctionSchema) -> str:
    positional = schema.arguments.flat_positional
    first = positional[0] if positional else None
    if first is None or not first.is_write or first.type != _TENSOR:
        return "the first positional argument is not a Tensor(a!)"
    if any(argument.is_write for argument in schema.arguments.flat_all if argument is not first):
        return "an argument other than the first is written to"
    if len(schema.returns) != 1 or schema.returns[0].annotation != first.annotation:
        return f"there is not exactly one return that is {first.name!r}, Tensor({first.annotation})"
    return ""


def _out_problem(schema: FunctionSchema) -> str:
    positional = schema.arguments.flat_positional
    keyword_only = schema.arguments.flat_all[len(positional) :]
    written = [argument for argument in keyword_only if argument.is_write]
    if not written or any(argument.is_write for argument in positional):
        return "the written arguments are not all keyword-only"
    if any(argument.type != _TENSOR for argument in written):
        return "a written argument is not a plain Tensor"
    if [r.annotation for r in schema.returns] != [a.annotation for a in written]:
        return "the returns are not the written arguments, in their order"
    return ""
