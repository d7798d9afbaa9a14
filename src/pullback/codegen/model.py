"""Data model of derivatives, with the names of PyTorch's code generator, and queries on it.

All records are frozen: ``derive`` fills them from one table entry, ``match`` and ``foreach`` make
new ones from old ones, and the emitters only read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from pullback.codegen.formula import Dialect, SavedAttribute
from pullback.codegen.native import NativeFunction, NativeFunctionsViewGroup
from pullback.errors import CodegenError
from pullback.schema import FunctionSchema, SchemaKind, Type

__all__ = [
    "Derivative",
    "DifferentiabilityInfo",
    "DifferentiableInput",
    "DifferentiableOutput",
    "ForwardDerivative",
    "Infos",
    "NativeFunctionWithDifferentiabilityInfo",
    "SavedAttribute",
    "dispatch_strategy",
    "gen_differentiable_outputs",
    "is_differentiable",
    "uses_ident",
    "uses_retain_variables",
    "uses_single_grad",
]


@dataclass(frozen=True, slots=True)
class DifferentiableInput:
    """An argument that a derivative is known for.

    >>> from pullback.schema import BaseTy, BaseType
    >>> DifferentiableInput("self", BaseType(BaseTy.Tensor)).name
    'self'
    """

    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class DifferentiableOutput:
    """An output that gradients flow into."""

    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class Derivative:
    """A backward formula: the gradients of one or more arguments.

    ``formula`` reads fields of the node, ``original_formula`` is what the table says.
    """

    formula: str
    original_formula: str
    var_names: tuple[str, ...]
    saved_inputs: tuple[SavedAttribute, ...]
    saved_outputs: tuple[SavedAttribute, ...]
    named_gradients: frozenset[str]


@dataclass(frozen=True, slots=True)
class ForwardDerivative:
    """A forward formula: the tangents of one or more outputs.

    ``original_formula`` is what the table says, perhaps only ``auto_linear``. The required inputs
    are those whose tangent (``N_t``) or primal (``N_p``) the formula reads; an in-place function
    may also need what ``self`` was before the call.
    """

    formula: str
    original_formula: str
    var_names: tuple[str, ...]
    var_types: tuple[Type, ...]
    required_inputs_fw_grad: tuple[str, ...]
    required_inputs_primal: tuple[str, ...]
    required_original_self_value: bool = False
    is_reusing_outplace_formula: bool = False


@dataclass(frozen=True, slots=True)
class DifferentiabilityInfo:
    """All that is known about the derivatives of one function, for one autograd key.

    ``op`` is the class name of the backward node, or None if no argument has a formula.
    ``args_with_derivatives`` is in the order of the arguments, ``derivatives`` in the order of
    their keys as text.
    """

    name: str
    func: NativeFunction
    op: str | None
    derivatives: tuple[Derivative, ...]
    forward_derivatives: tuple[ForwardDerivative, ...]
    all_saved_inputs: tuple[SavedAttribute, ...]
    all_saved_outputs: tuple[SavedAttribute, ...]
    available_named_gradients: tuple[str, ...]
    used_named_gradients: frozenset[str]
    args_with_derivatives: tuple[DifferentiableInput, ...]
    non_differentiable_arg_names: tuple[str, ...]
    output_differentiability: tuple[bool, ...] | None
    output_differentiability_conditions: tuple[str, ...] | None
    dialect: Dialect = field(repr=False, compare=False)

    @property
    def has_derivatives(self) -> bool:
        """Whether some argument has a backward formula."""
        return bool(self.args_with_derivatives)

    def create_view_copy_from_view_derivative(
        self, group: NativeFunctionsViewGroup
    ) -> DifferentiabilityInfo | None:
        """Give the copying twin of a view the same derivatives, under its own name."""
        if group.view_copy is None:
            return None
        base, _, overload = self.name.partition(".")
        return replace(
            self,
            name=f"{base}_copy.{overload}",
            func=group.view_copy,
            op=None if self.op is None else f"{self.op}_copy",
        )


Infos = dict[FunctionSchema, dict[str, DifferentiabilityInfo]]
"""Derivatives by schema, then by autograd key (``Default`` is the alias ``Autograd``)."""


@dataclass(frozen=True, slots=True)
class NativeFunctionWithDifferentiabilityInfo:
    """A function with the derivatives found for it, by autograd key.

    ``step`` is the step of ``match`` that found them (1 to 4); ``exact`` is whether they were
    written (or generated) for exactly this schema, not for another function of its family.
    """

    func: NativeFunction
    info: Mapping[str, DifferentiabilityInfo] | None
    fw_derivatives: Mapping[str, tuple[ForwardDerivative, ...]] | None
    step: Literal[1, 2, 3, 4] | None = None
    exact: bool = False


def uses_ident(info: DifferentiabilityInfo | None, ident: str) -> bool:
    """Whether some backward formula reads a name.

    >>> uses_ident(None, "grad")
    False
    """
    if info is None:
        return False
    return any(ident in info.dialect.names(d.formula) for d in info.derivatives)


def uses_retain_variables(info: DifferentiabilityInfo | None) -> bool:
    """Whether some backward formula reads `retain_variables`."""
    return uses_ident(info, "retain_variables")


def uses_single_grad(info: DifferentiabilityInfo | None) -> bool:
    """Whether some backward formula reads ``grad``, the gradient of the first output."""
    return uses_ident(info, "grad")


def dispatch_strategy(
    fn: NativeFunctionWithDifferentiabilityInfo,
) -> Literal["use_derived", "use_type"]:
    """Say how autograd calls the operator.

    ``use_derived``: as one piece, below autograd. ``use_type``: through its composite kernel, whose
    operators record their own history.

    >>> from pullback.schema import parse_schema
    >>> composite = NativeFunction(parse_schema("f(Tensor self) -> Tensor"), is_abstract=False)
    >>> dispatch_strategy(NativeFunctionWithDifferentiabilityInfo(composite, None, None))
    'use_type'
    """
    has_formula = fn.info is not None and any(i.has_derivatives for i in fn.info.values())
    return "use_derived" if fn.func.is_abstract or has_formula else "use_type"


def is_differentiable(name: str, type: Type, info: DifferentiabilityInfo | None) -> bool:
    """Whether a value is made of tensors and not declared non-differentiable.

    >>> from pullback.schema import BaseTy, BaseType
    >>> is_differentiable("self", BaseType(BaseTy.Tensor), None)
    True
    """
    return type.is_tensor_like() and (info is None or name not in info.non_differentiable_arg_names)


def gen_differentiable_outputs(
    fn: NativeFunctionWithDifferentiabilityInfo, key: str = "Default"
) -> list[DifferentiableOutput]:
    """Return the outputs that gradients flow into.

    >>> from pullback.schema import parse_schema
    >>> function = NativeFunction(parse_schema("f(Tensor x) -> (Tensor values, int count)"))
    >>> fn = NativeFunctionWithDifferentiabilityInfo(function, None, None)
    >>> [output.name for output in gen_differentiable_outputs(fn)]
    ['values']
    """
    func = fn.func.func
    info = fn.info[key] if fn.info else None
    outputs = [
        DifferentiableOutput(name, ret.type)
        for name, ret in zip(func.return_names(), func.returns, strict=True)
    ]
    flags = info.output_differentiability if info else None
    if flags is None:
        found = [o for o in outputs if is_differentiable(o.name, o.type, info)]
        return found[:1] if uses_single_grad(info) else found
    if len(flags) != len(outputs):
        raise CodegenError(
            f"{func.name}: output_differentiability has {len(flags)} element(s) "
            f"for {len(outputs)} output(s)"
        )
    if func.kind() is SchemaKind.inplace and not all(flags):
        raise CodegenError(
            f"{func.name}: output_differentiability cannot be False for an in-place function"
        )
    return [output for output, flag in zip(outputs, flags, strict=True) if flag]
