"""Twelve entries, one for each feature of derivative tables, and all that follows from them."""

from __future__ import annotations

import pytest

from pullback.codegen import gen_differentiable_outputs

# op; arguments with derivatives; saved inputs; saved outputs; differentiable outputs
ROWS = {
    "exp": ("ExpBackward0", "self", "", "result", "result"),
    "mul.Tensor": (
        "MulBackward0",
        "self other",
        "self other_scalar_type self_scalar_type other",
        "",
        "result",
    ),
    "mul_.Tensor": (
        "MulBackward0",
        "self other",
        "self other_scalar_type self_scalar_type other",
        "",
        "self",
    ),
    "masked_fill_.Scalar": ("MaskedFillBackward0", "self", "mask", "", "self"),
    "transpose.int": ("TransposeBackward0", "self", "dim0 dim1", "", "result"),
    "transpose_copy.int": ("TransposeBackward0_copy", "self", "dim0 dim1", "", "result"),
    "_linalg_svd": (
        "LinalgSvdBackward0",
        "A",
        "full_matrices",
        "U S_sym_argsize_minus_1 S Vh",
        "U S Vh",
    ),
    "max.dim": ("MaxBackward0", "self", "self_sym_sizes dim", "indices", "values"),
    "topk": ("TopkBackward0", "self", "self_sym_sizes dim", "indices", "values"),
    "_to_copy": ("ToCopyBackward0", "self", "self_options", "", "result"),
    "index_select": ("IndexSelectBackward0", "self", "self_sym_sizes dim index", "", "result"),
    "sum": ("SumBackward0", "self", "self_sym_sizes", "", "result"),
    "sin": ("SinBackward0", "self", "self", "", "result"),
    "_foreach_mul.List": ("ForeachMulBackward0List", "self other", "self other", "", "result"),
    "_foreach_mul_.List": (
        "MulBackward0",
        "self other",
        "self other_scalar_type self_scalar_type other",
        "",
        "",
    ),
    "_foreach_exp": ("ForeachExpBackward0", "self", "", "result", "result"),
    "cat": (
        "CatBackward0",
        "tensors",
        "tensors_args_sizes_symint tensors_args_scalartypes dim",
        "",
        "result",
    ),
    "convolution": (
        "ConvolutionBackward0",
        "input weight bias",
        "input weight bias_sym_sizes_opt stride",
        "",
        "result",
    ),
}

MUL = "other_t * original_self_p + original_self_t * other_p"
EXP = "(self_t.conj() * self_p.conj()).conj()"
FILL = "self_t.masked_fill(mask, 0)"

# forward formula; required tangents; required primals
FORWARD = {
    "exp": ("(self_t.conj() * result.conj()).conj()", {"self"}, set()),
    "exp_": (f"self_t_raw.defined() ? self_t_raw.copy_({EXP}) : {EXP}", {"self"}, {"self"}),
    "mul.Tensor": (
        "other_t * self_p + self_t * other_p",
        {"self", "other"},
        {"self", "other"},
    ),
    "mul_.Tensor": (
        f"self_t_raw.defined() ? self_t_raw.copy_({MUL}) : {MUL}",
        {"self", "other"},
        {"self", "other"},
    ),
    "masked_fill_.Scalar": (
        f"self_t_raw.defined() ? self_t_raw.masked_fill_(mask, 0) : {FILL}",
        {"self"},
        set(),
    ),
    "transpose.int": ("at::transpose(self_t, dim0, dim1)", {"self"}, set()),
    "transpose_copy.int": ("at::transpose(self_t, dim0, dim1)", {"self"}, set()),
    "_linalg_svd": ("svd_jvp(A_t, U, S, Vh, full_matrices)", {"A"}, set()),
    "_to_copy": ("at::_to_copy(self_t, options, non_blocking)", {"self"}, set()),
    "index_select": ("at::index_select(self_t, dim, index)", {"self"}, set()),
    "sum": ("at::sum(self_t, dtype)", {"self"}, set()),
    "sin": ("(self_t.conj() * self_p.cos().conj()).conj()", {"self"}, {"self"}),
    "_foreach_mul.List": (
        "other_t * self_p + self_t * other_p",
        {"self", "other"},
        {"self", "other"},
    ),
    "_foreach_exp": ("(self_t.conj() * result[i].conj()).conj()", {"self"}, set()),
    "cat": ("cat_jvp(tensors, dim)", set(), set()),
}


@pytest.mark.parametrize("name", ROWS)
def test_backward(worked, name):
    fn = worked[name]
    info = fn.info["Default"]
    outputs = gen_differentiable_outputs(fn)

    assert (
        info.op,
        " ".join(a.name for a in info.args_with_derivatives),
        " ".join(s.name for s in info.all_saved_inputs),
        " ".join(s.name for s in info.all_saved_outputs),
        " ".join(o.name for o in outputs),
    ) == ROWS[name]


@pytest.mark.parametrize("name", FORWARD)
def test_forward(worked, name):
    [forward] = worked[name].fw_derivatives["Default"]

    assert (
        forward.formula,
        set(forward.required_inputs_fw_grad),
        set(forward.required_inputs_primal),
    ) == FORWARD[name]


def test_without_a_forward_formula_there_is_none(worked):
    assert worked["max.dim"].fw_derivatives == {"Default": ()}


def test_only_the_product_needs_self_from_before_the_call(worked):
    needs = {
        name: worked[name].fw_derivatives["Default"][0].required_original_self_value
        for name in ("exp_", "mul_.Tensor", "masked_fill_.Scalar")
    }

    assert needs == {"exp_": False, "mul_.Tensor": True, "masked_fill_.Scalar": False}


def test_derivatives_are_kept_in_the_order_of_their_names_as_text(worked):
    info = worked["mul.Tensor"].info["Default"]

    assert [d.var_names for d in info.derivatives] == [("other",), ("self",)]


def test_named_gradients_follow_the_output_flags(worked):
    available = {
        name: worked[name].info["Default"].available_named_gradients
        for name in ("_linalg_svd", "max.dim", "topk")
    }

    assert available == {
        "_linalg_svd": ("grad_U", "grad_S", "grad_Vh"),
        "max.dim": ("grad_values", "grad_indices"),
        "topk": ("grad_values",),
    }
    assert worked["_linalg_svd"].info["Default"].used_named_gradients == {
        "grad_U",
        "grad_S",
        "grad_Vh",
    }


def test_one_forward_formula_for_three_outputs(worked):
    [forward] = worked["_linalg_svd"].fw_derivatives["Default"]

    assert forward.var_names == ("U", "S", "Vh")


def test_a_condition_becomes_a_flag_and_is_kept(worked):
    info = worked["_to_copy"].info["Default"]

    assert info.output_differentiability == (True,)
    assert info.output_differentiability_conditions == ("is_floating(dtype)",)


def test_each_key_has_a_node_of_its_own(worked):
    nested = worked["sum"].info["AutogradNestedTensor"]

    assert nested.op == "SumBackwardAutogradNestedTensor0"
    assert [s.name for s in nested.all_saved_inputs] == ["self"]


def test_foreach_formulas_are_about_one_element(worked):
    info = worked["_foreach_mul.List"].info["Default"]

    assert [d.formula for d in info.derivatives] == [
        "product_backward(grads[i], self[i], other[i].scalar_type())",
        "product_backward(grads[i], other[i], self[i].scalar_type())",
    ]


def test_a_saved_size_of_an_absent_tensor_is_none(worked):
    [derivative] = worked["convolution"].info["Default"].derivatives
    sizes = next(s for s in derivative.saved_inputs if s.name == "bias_sym_sizes_opt")

    assert derivative.var_names == ("input", "weight", "bias")
    assert str(sizes.type) == "SymInt[]?"
    assert sizes.source == "bias"
