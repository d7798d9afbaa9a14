"""The functions that one entry of our tables stands for: itself, in-place, ``out=``, foreach.

``load_ops`` calls it; the schemas made here have the signature of the entry's own, so that matching
finds the entry's formulas for them in step 2.
"""

from __future__ import annotations

import string
from dataclasses import replace

from pullback.codegen.native import NativeFunction
from pullback.errors import CodegenError
from pullback.schema import (
    Annotation,
    Argument,
    BaseTy,
    BaseType,
    FunctionSchema,
    ListType,
    OperatorName,
    Return,
    SchemaKind,
)

__all__ = ["VARIANTS", "foreach_schema", "inplace_schema", "out_schema", "with_variants"]

VARIANTS = ("function", "method", "inplace", "out", "foreach")
"""Values of `variants` in an entry: how it is called, and the functions derived from it."""

_TENSOR = BaseType(BaseTy.Tensor)
# Functions that call the entry's own function, and so need neither kernels nor formulas.
_MADE_OF_THE_ENTRY = {"CompositeImplicitAutograd": "entry"}


def with_variants(function: NativeFunction, variants: frozenset[str]) -> list[NativeFunction]:
    """Return the function of an entry, followed by those made from it.

    >>> from pullback.schema import parse_schema
    >>> entry = NativeFunction(parse_schema("exp(Tensor self) -> Tensor"))
    >>> for made in with_variants(entry, frozenset({"function", "inplace", "out"})):
    ...     print(made.func)
    exp(Tensor self) -> Tensor
    exp_(Tensor(a!) self) -> Tensor(a!)
    exp.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)
    """
    func = function.func
    made = [function]
    if not variants & {"function", "method"}:
        raise CodegenError(f"{func.name} needs the variant 'function' or 'method'")
    if variants & {"inplace", "out"}:
        if func.kind() is not SchemaKind.functional:
            raise CodegenError(
                f"{func.name} is {func.kind().name}; the variants 'inplace' and 'out' are made "
                "from a functional schema"
            )
        if function.is_view_op:
            raise CodegenError(f"{func.name} is a view, which has no variant 'inplace' or 'out'")
    if "inplace" in variants:
        form = frozenset({"method" if "method" in variants else "function"})
        made.append(replace(function, func=inplace_schema(func), variants=form, python=None))
    if "out" in variants:
        if not any(ret.type.is_tensor_like() for ret in func.returns):
            raise CodegenError(f"{func.name} returns no tensor that could be handed in as 'out'")
        function_only = frozenset({"function"})
        made.append(
            replace(
                function,
                func=out_schema(func),
                variants=function_only,
                python=None,
                dispatch=dict(_MADE_OF_THE_ENTRY),
                is_abstract=False,
            )
        )
    if "foreach" in variants:
        made.append(
            replace(
                function,
                func=foreach_schema(func),
                variants=frozenset({"function"}),
                python=None,
                dispatch=dict(_MADE_OF_THE_ENTRY),
                is_abstract=False,
            )
        )
    return made


def foreach_schema(func: FunctionSchema) -> FunctionSchema:
    """Make the schema that does to each tensor of lists what `func` does to one.

    >>> from pullback.schema import parse_schema
    >>> print(foreach_schema(parse_schema("mul(Tensor self, Tensor other) -> Tensor")))
    _foreach_mul(Tensor[] self, Tensor[] other) -> Tensor[]
    """
    if [ret.type for ret in func.returns] != [_TENSOR]:
        raise CodegenError(f"{func.name} has no variant 'foreach': that needs one Tensor as result")
    listed = ListType(_TENSOR, None)

    def lists(arguments: tuple[Argument, ...]) -> tuple[Argument, ...]:
        return tuple(replace(a, type=listed) if a.type == _TENSOR else a for a in arguments)

    arguments = func.arguments
    self_arg = arguments.self_arg
    name = replace(func.name.name, base=f"_foreach_{func.name.name.base}")
    return FunctionSchema(
        replace(func.name, name=name),
        replace(
            arguments,
            pre_self_positional=lists(arguments.pre_self_positional),
            self_arg=None if self_arg is None else lists((self_arg,))[0],
            post_self_positional=lists(arguments.post_self_positional),
        ),
        (Return(None, listed, None),),
    )


def inplace_schema(func: FunctionSchema) -> FunctionSchema:
    """Make the in-place schema of a functional one: ``self`` is written and returned.

    >>> from pullback.schema import parse_schema
    >>> print(inplace_schema(parse_schema("add.Scalar(Tensor self, Scalar x) -> Tensor")))
    add_.Scalar(Tensor(a!) self, Scalar x) -> Tensor(a!)
    """
    self_arg = func.arguments.self_arg
    returns_tensor = len(func.returns) == 1 and func.returns[0].type == _TENSOR
    if self_arg is None or self_arg.type != _TENSOR or not returns_tensor:
        raise CodegenError(
            f"{func.name} has no variant 'inplace': that needs an argument 'Tensor self' and one "
            "Tensor as result"
        )
    written = Annotation(("a",), is_write=True, alias_set_after=())
    return FunctionSchema(
        replace(func.name, name=replace(func.name.name, inplace=True)),
        replace(func.arguments, self_arg=replace(self_arg, annotation=written)),
        (Return(None, _TENSOR, written),),
    )


def out_schema(func: FunctionSchema) -> FunctionSchema:
    """Make the ``out=`` schema of a functional, in-place or mutable one.

    >>> from pullback.schema import parse_schema
    >>> print(out_schema(parse_schema("f.Scalar(Tensor self, int n) -> Tensor")))
    f.Scalar_out(Tensor self, int n, *, Tensor(a!) out) -> Tensor(a!)
    """
    name = _out_name(func.name)
    self_arg = func.arguments.self_arg
    if func.kind() is SchemaKind.inplace:
        assert self_arg is not None, "the parser lets no in-place schema through without self"
        written = replace(self_arg, name="out", default=None)
        bare_self = replace(self_arg, annotation=None)
        arguments = replace(func.arguments, self_arg=bare_self, out=(written,))
        return FunctionSchema(name, arguments, func.returns)
    returns, out = _returns_as_out(func)
    mutable = func.kind() is SchemaKind.mutable
    arguments = func.arguments if mutable else func.signature().arguments
    return FunctionSchema(name, replace(arguments, out=out), returns)


def _out_name(name: OperatorName) -> OperatorName:
    overload = f"{name.overload_name}_out" if name.overload_name else "out"
    return replace(name, name=replace(name.name, inplace=False), overload_name=overload)


def _returns_as_out(func: FunctionSchema) -> tuple[tuple[Return, ...], tuple[Argument, ...]]:
    """Turn tensor returns into arguments; plain tensors are returned too, lists are not."""
    used = {
        letter
        for argument in func.arguments.flat_all
        if argument.annotation
        for letter in argument.annotation.alias_set
    }
    free = [letter for letter in string.ascii_lowercase if letter not in used]
    chaining = all(ret.type == BaseType(BaseTy.Tensor) for ret in func.returns)
    returns: list[Return] = []
    out: list[Argument] = []
    for i, ret in enumerate(func.returns):
        if not ret.type.is_tensor_like():
            returns.append(ret)
            continue
        annotation = Annotation((free[i],), is_write=True, alias_set_after=())
        name = "out" if len(func.returns) == 1 else f"out{i}"
        out.append(Argument(name, ret.type, None, annotation))
        if chaining:
            returns.append(Return(None, ret.type, annotation))
    return tuple(returns), tuple(out)
