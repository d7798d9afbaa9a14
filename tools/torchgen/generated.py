"""Functions that no table declares, made so that families are complete.

A family gets the ``out=`` function, and the functional one where only mutating ones are written by
hand, if its ``autogen`` lists ask for them. ``load_native`` calls :func:`generated_functions` once
all declared functions are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pullback.codegen.native import NativeFunction, families
from pullback.codegen.variants import out_schema
from pullback.errors import CodegenError
from pullback.schema import FunctionSchema, SchemaKind

__all__ = ["functional_schema", "generated_functions"]

_KEPT_TAGS = frozenset({"nondeterministic_seeded", "pt2_compliant_tag", "view_copy"})
_BASE_ORDER = (SchemaKind.mutable, SchemaKind.inplace, SchemaKind.out, SchemaKind.functional)


def generated_functions(functions: Sequence[NativeFunction]) -> list[NativeFunction]:
    """Make the missing ``out=`` and functional functions of every family, in table order."""
    made: list[NativeFunction] = []
    for family in families(functions).values():
        made += _complete(family)
    return made


def _complete(family: dict[SchemaKind, NativeFunction]) -> list[NativeFunction]:
    members = family.values()
    is_core = any("core" in f.tags for f in members)
    all_implicit = all("CompositeImplicitAutograd" in f.dispatch for f in members)
    # set_ changes what its argument is a view of, but is otherwise an ordinary in-place function.
    has_views = any(f.is_view_op and str(f.func.name.name) != "set_" for f in members)
    all_manual = all(f.manual_cpp_binding for f in members)
    if all_manual or has_views or (all_implicit and not is_core):
        return []
    base = next(family[kind] for kind in _BASE_ORDER if kind in family)
    candidates: list[FunctionSchema] = []
    if SchemaKind.out not in family and _can_have_out(base.func):
        candidates.append(out_schema(base.func))
    if SchemaKind.functional not in family:
        candidates.append(functional_schema(base.func))
    wanted = {name: function for function in members for name in function.autogen}
    made = [_generate(base, func) for func in candidates if func.name.unqualified in wanted]
    for function in made:
        del wanted[function.func.name.unqualified]
    for name, function in wanted.items():
        possible = ", ".join(func.name.unqualified for func in candidates) or "nothing"
        raise CodegenError(
            f"{function.place}: 'autogen' of {function.func.name} asks for {name}, but its family "
            f"lacks: {possible}"
        )
    return made


def _can_have_out(func: FunctionSchema) -> bool:
    returns_tensors = any(ret.type.is_tensor_like() for ret in func.returns)
    return func.kind() is SchemaKind.inplace or returns_tensors


def _generate(base: NativeFunction, func: FunctionSchema) -> NativeFunction:
    return NativeFunction(
        func=func,
        dispatch={"CompositeExplicitAutograd": func.name.unqualified.replace(".", "_")},
        is_abstract=base.is_abstract,
        tags=(base.tags & _KEPT_TAGS) | {"generated"},
        place=base.place,
    )


def functional_schema(func: FunctionSchema) -> FunctionSchema:
    """Make the functional schema of a mutating one: what was written is returned.

    >>> from pullback.schema import parse_schema
    >>> print(functional_schema(parse_schema("f_(Tensor(a!) self) -> Tensor(a!)")))
    f(Tensor self) -> Tensor
    """
    name = replace(
        func.name.name,
        inplace=False,
        functional_overload=func.kind() is SchemaKind.mutable,
    )
    bare = func.signature(keep_return_names=True)
    return replace(bare, name=replace(func.name, name=name))
