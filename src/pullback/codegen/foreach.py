"""Derivatives of ``_foreach_`` functions, made from those of the function for one tensor.

``_foreach_mul.List`` has no formulas in the table: it uses those of ``mul.Tensor`` and applies
them to element ``i`` of its lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pullback.codegen.formula import Dialect, SavedAttribute
from pullback.codegen.model import (
    Derivative,
    DifferentiabilityInfo,
    DifferentiableInput,
    ForwardDerivative,
    Infos,
)
from pullback.codegen.native import NativeFunction
from pullback.errors import CodegenError
from pullback.schema import Argument, BaseTy, BaseType, FunctionSchema, ListType, SchemaKind

__all__ = ["gen_foreach_derivativeinfo", "is_reference_for_foreach"]

_INPLACE_REFERENCE = frozenset({"_foreach_zero_"})
"""Functions whose reference exists only in-place."""

_WITHOUT_ALPHA = frozenset(
    f"_foreach_{name}.{overload}"
    for name in ("add", "add_", "sub", "sub_")
    for overload in ("Scalar", "ScalarList")
)
"""Functions that lack the last argument of their reference."""

_TENSOR_LIST = ListType(BaseType(BaseTy.Tensor), None)


def is_reference_for_foreach(function: NativeFunction, schema: FunctionSchema) -> bool:
    """Whether a function does for one tensor what a foreach function does for lists.

    >>> from pullback.schema import parse_schema
    >>> foreach = NativeFunction(parse_schema("_foreach_exp(Tensor[] self) -> Tensor[]"))
    >>> is_reference_for_foreach(foreach, parse_schema("exp(Tensor self) -> Tensor"))
    True
    """
    func = function.func
    full_name = func.name.unqualified
    ours, theirs = func.arguments.flat_non_out, schema.arguments.flat_non_out
    return (
        func.name.name.base.removeprefix("_foreach_") == schema.name.name.base
        and (not schema.name.name.inplace or full_name in _INPLACE_REFERENCE)
        and (len(ours) == len(theirs) or full_name in _WITHOUT_ALPHA)
        and all(
            their.type in (our.type, our.type.elem if isinstance(our.type, ListType) else None)
            for our, their in zip(ours, theirs, strict=False)
        )
    )


def gen_foreach_derivativeinfo(
    function: NativeFunction, functional: Infos, non_functional: Infos, key: str = "Default"
) -> tuple[DifferentiabilityInfo | None, bool]:
    """Find the reference of a foreach function and make derivatives from it.

    The second result is whether they are new: an in-place function uses those of its reference as
    they are, one node an element.
    """
    found = _reference(function, functional, key)
    if found is None and function.func.name.unqualified in _INPLACE_REFERENCE:
        found = _reference(function, non_functional, key)
    if found is None:
        return None, False
    schema, info = found
    if function.func.kind() is SchemaKind.inplace:
        return info, False
    mapping = _ArgumentMap.between(schema, function.func)
    return _generate(function, info, mapping), True


def _reference(
    function: NativeFunction, infos: Infos, key: str
) -> tuple[FunctionSchema, DifferentiabilityInfo] | None:
    for schema, by_key in infos.items():
        if key in by_key and is_reference_for_foreach(function, schema):
            return schema, by_key[key]
    return None


@dataclass(frozen=True, slots=True)
class _ArgumentMap:
    """From the arguments of the reference to those of the foreach function, by position."""

    arguments: Mapping[str, Argument]

    @staticmethod
    def between(reference: FunctionSchema, foreach: FunctionSchema) -> _ArgumentMap:
        pairs = zip(reference.arguments.flat_non_out, foreach.arguments.flat_non_out, strict=False)
        return _ArgumentMap({theirs.name: ours for theirs, ours in pairs})

    def name(self, name: str) -> str:
        return self.arguments[name].name if name in self.arguments else name

    def element(self, name: str) -> str:
        argument = self.arguments[name]
        return f"{argument.name}[i]" if isinstance(argument.type, ListType) else argument.name


def _generate(
    function: NativeFunction, reference: DifferentiabilityInfo, mapping: _ArgumentMap
) -> DifferentiabilityInfo:
    func = function.func
    derivatives = tuple(
        _backward(derivative, mapping, reference) for derivative in reference.derivatives
    )
    written = {name for derivative in derivatives for name in derivative.var_names}
    return DifferentiabilityInfo(
        name=func.name.name.base,
        func=function,
        op=f"Foreach{reference.op}{func.name.overload_name}",
        derivatives=derivatives,
        forward_derivatives=tuple(
            _forward(derivative, mapping, reference.dialect)
            for derivative in reference.forward_derivatives
        ),
        all_saved_inputs=_unique(s for d in derivatives for s in d.saved_inputs),
        all_saved_outputs=_unique(s for d in derivatives for s in d.saved_outputs),
        available_named_gradients=(),
        used_named_gradients=frozenset(),
        args_with_derivatives=tuple(
            DifferentiableInput(a.name, a.type)
            for a in func.arguments.flat_non_out
            if a.name in written
        ),
        non_differentiable_arg_names=(),
        output_differentiability=None,
        output_differentiability_conditions=None,
        dialect=reference.dialect,
    )


def _backward(
    derivative: Derivative, mapping: _ArgumentMap, reference: DifferentiabilityInfo
) -> Derivative:
    dialect = reference.dialect
    replacements = {"grad": "grads[i]", "result": "result[i]"}
    saved_inputs: list[SavedAttribute] = []
    for saved in derivative.saved_inputs:
        argument = mapping.arguments[saved.source]
        # The lists are saved whole, so a saved attribute is evaluated again for each element.
        element = mapping.element(saved.source)
        replacements[saved.name] = dialect.substitute(saved.expr, {saved.source: element})
        saved_inputs.append(
            SavedAttribute(argument.name, argument.type, argument.name, argument.name)
        )
    for saved in derivative.saved_outputs:
        if saved.name != "result":
            raise CodegenError(
                f"{reference.func.place}: {reference.name} cannot be the reference of a foreach "
                f"function, because a formula of it saves {saved.name!r}"
            )
    outputs = derivative.saved_outputs and (
        SavedAttribute("result", _TENSOR_LIST, "result", "result"),
    )
    return Derivative(
        formula=dialect.substitute(derivative.formula, replacements),
        original_formula=derivative.formula,
        var_names=tuple(mapping.name(name) for name in derivative.var_names),
        saved_inputs=_unique(saved_inputs),
        saved_outputs=outputs,
        named_gradients=frozenset(),
    )


def _forward(
    forward: ForwardDerivative, mapping: _ArgumentMap, dialect: Dialect
) -> ForwardDerivative:
    """Rename what the formula reads; primals and tangents are of one element already."""
    replacements = {"result": "result[i]"}
    for name, argument in mapping.arguments.items():
        if argument.type.is_tensor_like():
            replacements |= {f"{name}{end}": f"{argument.name}{end}" for end in ("_p", "_t")}
        else:
            replacements[name] = mapping.element(name)
    return ForwardDerivative(
        formula=dialect.substitute(forward.formula, replacements),
        original_formula=forward.formula,
        var_names=tuple(mapping.name(name) for name in forward.var_names),
        var_types=forward.var_types,
        required_inputs_fw_grad=tuple(map(mapping.name, forward.required_inputs_fw_grad)),
        required_inputs_primal=tuple(map(mapping.name, forward.required_inputs_primal)),
    )


def _unique(saved: Iterable[SavedAttribute]) -> tuple[SavedAttribute, ...]:
    return tuple(dict.fromkeys(saved))
