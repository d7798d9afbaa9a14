"""Model of one function for the emitters: names in Python, arguments in order, saved values."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from pullback.codegen.model import (
    Derivative,
    DifferentiabilityInfo,
    NativeFunctionWithDifferentiabilityInfo,
    SavedAttribute,
    gen_differentiable_outputs,
)
from pullback.codegen.native import NativeFunction
from pullback.schema import Argument, BaseTy, BaseType, FunctionSchema, ListType, OptionalType, Type

__all__ = [
    "Emitted",
    "default_of",
    "has_gaps",
    "in_namespace",
    "is_tensor",
    "is_tensor_list",
    "is_tensor_value",
]

_TENSOR = BaseType(BaseTy.Tensor)


def is_tensor(type_: Type) -> bool:
    """Whether a value is one tensor, possibly None."""
    return type_ in (_TENSOR, OptionalType(_TENSOR))


def is_tensor_list(type_: Type) -> bool:
    """Whether a value is a list of tensors, possibly with None among them."""
    return isinstance(type_, ListType) and is_tensor(type_.elem)


def has_gaps(type_: Type) -> bool:
    """Whether a list of tensors may have None in the place of one."""
    return isinstance(type_, ListType) and isinstance(type_.elem, OptionalType)


def is_tensor_value(type_: Type) -> bool:
    """Whether a value holds tensors."""
    return is_tensor(type_) or is_tensor_list(type_)


@dataclass(frozen=True)
class Emitted:
    """One function of the tables, with what its source needs."""

    matched: NativeFunctionWithDifferentiabilityInfo

    @property
    def function(self) -> NativeFunction:
        """The function as the table declares it."""
        return self.matched.func

    @property
    def schema(self) -> FunctionSchema:
        """The function's schema."""
        return self.matched.func.func

    @property
    def name(self) -> str:
        """The operator's name in Python: overloads have a suffix."""
        overload = self.schema.name.overload_name
        return f"{self.schema.name.name}{'_' + overload if overload else ''}"

    @property
    def info(self) -> DifferentiabilityInfo | None:
        """The derivatives, where there are formulas."""
        found = self.matched.info["Default"] if self.matched.info else None
        return found if found is not None and found.has_derivatives else None

    @property
    def positional(self) -> list[Argument]:
        """Arguments that may be given by position."""
        return list(self.schema.arguments.flat_positional)

    @property
    def keyword_only(self) -> list[Argument]:
        """Arguments that are given by keyword, without ``out``."""
        return list(self.schema.arguments.flat_kwarg_only)

    @property
    def arguments(self) -> list[Argument]:
        """All arguments but ``out``."""
        return self.positional + self.keyword_only

    @property
    def tensors(self) -> list[Argument]:
        """Arguments that hold tensors."""
        return [a for a in self.arguments if is_tensor_value(a.type)]

    @property
    def inplace(self) -> bool:
        """Whether ``self`` is written to."""
        return self.schema.name.name.inplace

    @property
    def is_view(self) -> bool:
        """Whether the result shares memory with ``self``."""
        return self.function.is_view_op

    @property
    def differentiable(self) -> list[Argument]:
        """Arguments with a formula, in order; the node has their edges."""
        names = {a.name for a in self.info.args_with_derivatives} if self.info else set()
        return [a for a in self.arguments if a.name in names]

    @property
    def derivatives(self) -> list[Derivative]:
        """The backward formulas."""
        return list(self.info.derivatives) if self.info else []

    @property
    def differentiable_outputs(self) -> tuple[bool, ...]:
        """For each result, whether gradients flow into it."""
        names = {output.name for output in gen_differentiable_outputs(self.matched)}
        return tuple(name in names for name in self.schema.return_names())

    def saved(self, of: str) -> list[SavedAttribute]:
        """The values that the node saves of ``inputs`` or ``outputs``."""
        if self.info is None:
            return []
        return list(self.info.all_saved_inputs if of == "inputs" else self.info.all_saved_outputs)

    def parameters(self, defaults: bool = True) -> str:
        """The parameter list of a kernel."""
        texts = [a.name + (default_of(a) if defaults else "") for a in self.positional]
        if self.keyword_only:
            texts += [
                "*",
                *(a.name + (default_of(a) if defaults else "") for a in self.keyword_only),
            ]
        return ", ".join(texts)

    def passed(self) -> str:
        """The arguments of a call to another kernel of this operator."""
        texts = [a.name for a in self.positional] + [
            f"{a.name}={a.name}" for a in self.keyword_only
        ]
        return ", ".join(texts)


def default_of(argument: Argument) -> str:
    """The default of a parameter, as source text; lists become tuples."""
    if argument.default is None:
        return ""
    value = argument.default_value()
    return f"={tuple(value) if isinstance(value, list) else value!r}"


class _Namespaced(ast.NodeTransformer):
    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name and name != "len":
            node.func = ast.Attribute(ast.Name("xp", ast.Load()), name, ast.Load())
        return node


def in_namespace(formula: str) -> str:
    """A formula that calls its functions in the namespace ``xp``.

    >>> in_namespace("grad * conj(sin(self))")
    'grad * xp.conj(xp.sin(self))'
    """
    return ast.unparse(_Namespaced().visit(ast.parse(formula, mode="eval")))
