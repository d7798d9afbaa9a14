"""Forward formulas of in-place functions, made from those of their functional twins."""

from __future__ import annotations

from dataclasses import replace

from pullback.codegen.model import DifferentiabilityInfo, ForwardDerivative
from pullback.codegen.native import NativeFunction
from pullback.errors import CodegenError

__all__ = ["check_saved_strides", "inplace_forward_derivative"]


def inplace_forward_derivative(
    function: NativeFunction, info: DifferentiabilityInfo, *, exact: bool
) -> ForwardDerivative:
    """Rewrite the one forward formula for a function whose output *is* its argument ``self``.

    After the call ``self`` holds the result, so ``self_p`` in a formula for the functional twin
    becomes ``original_self_p``, kept from before the call, and ``result`` becomes ``self_p``. A
    formula written for the in-place function itself (``exact``) must say so on its own.
    """
    if len(info.forward_derivatives) != 1:
        raise CodegenError(
            f"{function.place}: the in-place function {function.func.name} needs one forward "
            f"formula, not {len(info.forward_derivatives)}"
        )
    forward = info.forward_derivatives[0]
    names = info.dialect.names(forward.formula)
    originals = {"self_p": "original_self_p", "self_t": "original_self_t"}
    replacements = {"result": "self_p"}
    if "self_p" in names:
        if exact:
            raise CodegenError(
                f"{function.place}: the forward formula of {function.func.name} is using the "
                "original value of self, which the call has overwritten; write 'result' for the "
                "new value or 'original_self_p' for the old one"
            )
        replacements = originals | replacements
    formula = info.dialect.substitute(forward.formula, replacements)
    primals = forward.required_inputs_primal
    if "result" in names and "self" not in primals:
        primals = (*primals, "self")
    if not exact:
        formula = info.dialect.write_in_place(formula, info.name)
    return replace(
        forward,
        formula=formula,
        var_names=("self",),
        required_inputs_primal=primals,
        required_original_self_value=not info.dialect.names(formula).isdisjoint(originals.values()),
        is_reusing_outplace_formula=not exact,
    )


def check_saved_strides(function: NativeFunction, info: DifferentiabilityInfo) -> None:
    """Refuse the strides of an overwritten ``self``: they would be read after the call."""
    for derivative in info.derivatives:
        if "self" in derivative.var_names:
            for saved in derivative.saved_inputs:
                if saved.source == "self" and "strides" in saved.name:
                    raise CodegenError(
                        f"{function.place}: the formula for 'self' of the in-place function "
                        f"{function.func.name} saves its strides, which is not supported"
                    )
