"""17.14 and 17.25: how an entry of the derivative table is read."""

from __future__ import annotations

import pytest

from pullback.codegen.derive import op_prefix

F = "f(Tensor self, Tensor other) -> Tensor"


def test_an_entry_without_dispatch_is_the_section_default(read_two):
    """Rule 17.14."""
    native = f"- func: {F}\n  dispatch: {{CPU: f}}\n"
    [by_key] = read_two(native, f"- name: {F}\n  self: grad\n").entries.values()

    assert list(by_key) == ["Default"]


def test_the_functional_function_is_canonical_for_its_out_function(read_two):
    """Rule 17.14."""
    native = """
- func: f(Tensor self) -> Tensor
  dispatch: {CPU: f}
- func: f.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)
  dispatch: {CPU: f_out}
"""
    derivatives = "- name: f.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)\n  self: grad\n"
    [schema] = read_two(native, derivatives).entries

    assert str(schema) == "f(Tensor self) -> Tensor"


def test_the_in_place_function_is_canonical_if_there_is_no_functional_one(read_two):
    """Rule 17.14."""
    native = """
- func: f_(Tensor(a!) self) -> Tensor(a!)
  dispatch: {CPU: f_}
- func: f.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)
  dispatch: {CPU: f_out}
"""
    derivatives = "- name: f.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)\n  self: grad\n"
    [schema] = read_two(native, derivatives).entries

    assert str(schema.name) == "f_"


def test_names_are_split_at_commas_and_the_first_one_decides(entry):
    """Rule 17.14."""
    schema = "f(Tensor a, Tensor b, Tensor c) -> (Tensor x, Tensor y)"
    info = entry(schema, "a, b: g(grad, grad_input_mask)\nc: non_differentiable\nx,y: h(a_t, b_t)")

    assert [d.var_names for d in info.derivatives] == [("a", "b")]
    assert [d.var_names for d in info.forward_derivatives] == [("x", "y")]
    assert info.non_differentiable_arg_names == ("c",)


@pytest.mark.parametrize(
    "word", ["non_differentiable", "Non_Differentiable", " NON_DIFFERENTIABLE "]
)
def test_non_differentiable_in_any_case_with_blanks(entry, word):
    """Rule 17.14."""
    info = entry("f(Tensor self) -> Tensor", f'self: "{word}"')

    assert info.non_differentiable_arg_names == ("self",)
    assert info.derivatives == ()


def test_flags_of_the_outputs(entry):
    """Rule 17.14."""
    schema = "f(Tensor self) -> (Tensor a, Tensor b)"
    info = entry(schema, "output_differentiability: [True, False]\nself: grad")

    assert info.output_differentiability == (True, False)
    assert info.output_differentiability_conditions is None


def test_a_condition_on_the_only_output(entry):
    """Rule 17.14."""
    formulas = 'output_differentiability: ["is_floating(self)"]\nself: grad'
    info = entry("f(Tensor self) -> Tensor", formulas)

    assert info.output_differentiability == (True,)
    assert info.output_differentiability_conditions == ("is_floating(self)",)


@pytest.mark.parametrize(
    ("name", "prefix"),
    [
        ("exp", "ExpBackward"),
        ("_linalg_svd", "LinalgSvdBackward"),
        ("conv1d", "Conv1DBackward"),
        ("nll_loss_forward", "NllLossBackward"),
        ("masked_fill_", "MaskedFillBackward"),
    ],
)
def test_node_names_are_camel_case_with_counter(name, prefix):
    """Rule 17.14."""
    assert op_prefix(name) == prefix


def test_nodes_are_counted_by_prefix(read_two):
    """Rule 17.14."""
    schemas = ["f.a(Tensor self) -> Tensor", "f.b(Tensor self, int n) -> Tensor"]
    native = "".join(f"- func: {s}\n  dispatch: {{CPU: f}}\n" for s in schemas)
    derivatives = f"""
- name: {schemas[1]}
  self: grad
- name: {schemas[0]}
  dispatch:
    Default: {{self: grad}}
    AutogradCPU: {{self: grad * self}}
"""
    infos = read_two(native, derivatives).entries.values()

    assert [info.op for by_key in infos for info in by_key.values()] == [
        "FBackward0",
        "FBackward1",
        "FBackwardAutogradCPU0",
    ]


def test_not_differentiable_is_no_keyword(entry):
    """Rule 17.25."""
    info = entry("f(Tensor self) -> Tensor", "self: not_differentiable(grad)")

    assert info.has_derivatives


@pytest.mark.parametrize(
    "formula",
    [
        "g(grad, grad_input_mask)",
        "g(grad, wrap_opt_if(other, grad_input_mask[0]))",
        "retain_variables ? grad : grad.clone()",
        'not_implemented("f")',
    ],
)
def test_special_words_are_not_saved(entry, formula):
    """Rule 17.25."""
    info = entry(F, f"self, other: '{formula}'")

    assert {s.name for s in info.all_saved_inputs} <= {"other"}
    assert info.all_saved_outputs == ()


def test_auto_words_have_to_be_the_whole_value(entry):
    """Rule 17.25."""
    info = entry(F, "self: grad\nother: grad\nresult: auto_linear(self_t)")

    assert info.forward_derivatives[0].formula == "auto_linear(self_t)"
