"""17.9 to 17.13, 17.18 and 17.19: the data model and the questions asked of it."""

from __future__ import annotations

import dataclasses

import pytest

from pullback.codegen import (
    Derivative,
    DifferentiabilityInfo,
    DifferentiableInput,
    DifferentiableOutput,
    ForwardDerivative,
    NativeFunction,
    NativeFunctionWithDifferentiabilityInfo,
    SavedAttribute,
    dispatch_strategy,
    gen_differentiable_outputs,
    is_differentiable,
    uses_ident,
    uses_retain_variables,
    uses_single_grad,
)
from pullback.errors import CodegenError
from pullback.schema import BaseTy, BaseType, ListType, OptionalType, parse_schema

TENSOR = BaseType(BaseTy.Tensor)
RECORDS = (
    Derivative,
    DifferentiabilityInfo,
    DifferentiableInput,
    DifferentiableOutput,
    ForwardDerivative,
    NativeFunction,
    NativeFunctionWithDifferentiabilityInfo,
    SavedAttribute,
)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_records_are_frozen(record):
    assert dataclasses.is_dataclass(record)
    assert record.__dataclass_params__.frozen


def test_a_saved_attribute_names_the_field_and_what_fills_it(entry):
    """Rule 17.9."""
    [derivative] = entry("f(Tensor self) -> Tensor", "self: g(grad, self.dim(), self)").derivatives

    assert derivative.saved_inputs == (
        SavedAttribute("self_dim", BaseType(BaseTy.int), "self.dim()", "self"),
        SavedAttribute("self", TENSOR, "self", "self"),
    )


def test_a_derivative_keeps_both_forms_of_its_formula(entry):
    """Rule 17.10."""
    info = entry("f(Tensor self, int n) -> Tensor x", "self: g(grad_x, self.numel(), n, x)")
    [derivative] = info.derivatives

    assert derivative.original_formula == "g(grad_x, self.numel(), n, x)"
    assert derivative.formula == "g(grad_x, self_numel, n, x)"
    assert derivative.var_names == ("self",)
    assert [s.name for s in derivative.saved_inputs] == ["self_numel", "n"]
    assert [s.name for s in derivative.saved_outputs] == ["x"]
    assert derivative.named_gradients == {"grad_x"}


def test_a_forward_derivative_lists_what_it_needs(entry):
    """Rule 17.11."""
    schema = "f(Tensor self, Tensor other) -> (Tensor a, Tensor b)"
    info = entry(schema, "self: grad\nother: grad\na, b: g(self_p, other_t, a)")
    [forward] = info.forward_derivatives

    assert forward.var_names == ("a", "b")
    assert forward.var_types == (TENSOR, TENSOR)
    assert forward.required_inputs_fw_grad == ("other",)
    assert forward.required_inputs_primal == ("self",)
    assert not forward.required_original_self_value
    assert not forward.is_reusing_outplace_formula


def test_saved_values_are_listed_once(entry):
    """Rule 17.12."""
    info = entry("f(Tensor a, Tensor b) -> Tensor", "a: grad * b * b.dim()\nb: grad * a + b.dim()")

    assert [s.name for s in info.all_saved_inputs] == ["b_dim", "b", "a"]
    assert [a.name for a in info.args_with_derivatives] == ["a", "b"]
    assert info.has_derivatives


def test_without_formulas_there_is_no_node(entry):
    """Rule 17.12."""
    info = entry("f(Tensor self) -> Tensor", "self: non_differentiable")

    assert info.op is None
    assert not info.has_derivatives
    assert info.non_differentiable_arg_names == ("self",)


def test_inputs_and_outputs_are_names_with_types(worked):
    """Rule 17.13."""
    info = worked["mul_.Tensor"].info["Default"]

    assert info.args_with_derivatives == (
        DifferentiableInput("self", TENSOR),
        DifferentiableInput("other", TENSOR),
    )
    assert gen_differentiable_outputs(worked["mul_.Tensor"]) == [
        DifferentiableOutput("self", TENSOR)
    ]


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        (TENSOR, True),
        (OptionalType(TENSOR), True),
        (ListType(TENSOR, None), True),
        (ListType(OptionalType(TENSOR), None), True),
        (BaseType(BaseTy.Scalar), False),
    ],
    ids=str,
)
def test_tensors_of_any_nesting_are_differentiable(type_, expected):
    """Rule 17.18."""
    assert is_differentiable("x", type_, None) is expected


def test_a_mark_makes_an_argument_non_differentiable(worked):
    """Rule 17.18."""
    info = worked["index_select"].info["Default"]

    assert not is_differentiable("index", TENSOR, info)
    assert is_differentiable("self", TENSOR, info)


@pytest.mark.parametrize(
    ("formulas", "outputs"),
    [
        ("self: g(grad)", ["a"]),
        ("self: g(grads[0], grads[1])", ["a", "b"]),
        ("self: g(grad_a, grad_b)", ["a", "b"]),
        ("self: non_differentiable", ["a", "b"]),
        ("output_differentiability: [False, True, True]\nself: g(grad)", ["b", "n"]),
    ],
)
def test_differentiable_outputs_by_flags_and_gradient_words(match_two, formulas, outputs):
    """Rule 17.18."""
    schema = "f(Tensor self) -> (Tensor a, Tensor b, int n)"
    lines = "".join(f"  {line}\n" for line in formulas.splitlines())
    matched = match_two(f"- func: {schema}\n  dispatch: {{CPU: f}}\n", f"- name: {schema}\n{lines}")

    assert [o.name for o in gen_differentiable_outputs(matched["f"])] == outputs


def test_flags_must_fit_the_outputs_of_a_variant(entry):
    """Rule 17.18."""
    info = entry("f(Tensor self) -> Tensor", "output_differentiability: [True]\nself: grad")
    other = NativeFunction(parse_schema("f(Tensor self) -> (Tensor, Tensor)"))
    fn = NativeFunctionWithDifferentiabilityInfo(other, {"Default": info}, {"Default": ()}, 2)

    with pytest.raises(CodegenError, match=r"has 1 element\(s\) for 2 output\(s\)"):
        gen_differentiable_outputs(fn)


def test_an_in_place_variant_cannot_use_the_flag_false(match_two):
    """Rule 17.18."""
    native = """
- func: f(Tensor self) -> Tensor
  dispatch: {CPU: f}
- func: f_(Tensor(a!) self) -> Tensor(a!)
  dispatch: {CPU: f_}
"""
    derivatives = "- name: f(Tensor self) -> Tensor\n  output_differentiability: [False]\n"
    matched = match_two(native, derivatives)

    assert gen_differentiable_outputs(matched["f"]) == []
    with pytest.raises(CodegenError, match="cannot be False for an in-place function"):
        gen_differentiable_outputs(matched["f_"])


def test_names_used_by_backward_formulas(entry):
    """Rule 17.18."""
    info = entry(
        "f(Tensor self, Tensor other) -> Tensor",
        "self: g(grad, retain_variables)\nother: grad.other_name(self)",
    )

    assert uses_single_grad(info)
    assert uses_retain_variables(info)
    assert uses_ident(info, "self")
    assert not uses_ident(info, "other_name")
    assert not uses_ident(info, "grads")
    assert not uses_ident(None, "grad")


@pytest.mark.parametrize(
    ("dispatch", "formula", "strategy"),
    [
        ("CompositeImplicitAutograd", "", "use_type"),
        ("CompositeImplicitAutograd", "self: grad", "use_derived"),
        ("CompositeImplicitAutograd", "self: non_differentiable", "use_type"),
        ("CPU", "", "use_derived"),
    ],
)
def test_dispatch_strategy_follows_derivatives(match_two, dispatch, formula, strategy):
    """Rule 17.19."""
    schema = "f(Tensor self) -> Tensor"
    native = f"- func: {schema}\n  dispatch: {{{dispatch}: kernel}}\n"
    derivatives = f"- name: {schema}\n  {formula}\n" if formula else "[]"

    assert dispatch_strategy(match_two(native, derivatives)["f"]) == strategy


def test_a_formula_under_any_key_counts(match_two):
    """Rule 17.19."""
    native = "- func: f(Tensor self) -> Tensor"
    derivatives = """
- name: f(Tensor self) -> Tensor
  dispatch:
    Default: {self: non_differentiable}
    AutogradCUDA: {self: grad}
"""
    assert dispatch_strategy(match_two(native, derivatives)["f"]) == "use_derived"
