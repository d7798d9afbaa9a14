"""The derivative generator, at development time: tables in, data model out.

Reading tables (:func:`load_ops`) gives :class:`Tables`; its ``match`` finds the derivatives of
every function. Uses ``schema`` and ``errors`` only, and PyYAML when a file is read.
"""

from pullback.codegen.foreach import gen_foreach_derivativeinfo, is_reference_for_foreach
from pullback.codegen.formula import Dialect, SavedAttribute, Value
from pullback.codegen.load_ops import load_ops
from pullback.codegen.match import match_differentiability_info
from pullback.codegen.model import (
    Derivative,
    DifferentiabilityInfo,
    DifferentiableInput,
    DifferentiableOutput,
    ForwardDerivative,
    NativeFunctionWithDifferentiabilityInfo,
    dispatch_strategy,
    gen_differentiable_outputs,
    is_differentiable,
    uses_ident,
    uses_retain_variables,
    uses_single_grad,
)
from pullback.codegen.native import NativeFunction, NativeFunctionsViewGroup, is_foreach_func
from pullback.codegen.python_dialect import PYTHON, Arity, PythonDialect
from pullback.codegen.tables import Tables

__all__ = [
    "PYTHON",
    "Arity",
    "Derivative",
    "Dialect",
    "DifferentiabilityInfo",
    "DifferentiableInput",
    "DifferentiableOutput",
    "ForwardDerivative",
    "NativeFunction",
    "NativeFunctionWithDifferentiabilityInfo",
    "NativeFunctionsViewGroup",
    "PythonDialect",
    "SavedAttribute",
    "Tables",
    "Value",
    "dispatch_strategy",
    "gen_differentiable_outputs",
    "gen_foreach_derivativeinfo",
    "is_differentiable",
    "is_foreach_func",
    "is_reference_for_foreach",
    "load_ops",
    "match_differentiability_info",
    "uses_ident",
    "uses_retain_variables",
    "uses_single_grad",
]
