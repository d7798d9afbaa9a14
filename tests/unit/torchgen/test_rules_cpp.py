"""17.15, 17.16, 17.17 and 17.20: formulas in C++."""

from __future__ import annotations

import pytest

from pullback.errors import CodegenError
from tools.torchgen import CPP
from tools.torchgen.cpp_tokens import tokenize

SCHEMA = "f(Tensor self, Tensor? other, Tensor[] xs, str? mode, int k) -> Tensor"

# formula -> rewritten formula; saved fields with their types
SAVED = [
    ("g(grad, self.sym_sizes())", "g(grad, self_sym_sizes)", {"self_sym_sizes": "SymInt[]"}),
    (
        "g(grad, other->sym_sizes())",
        "g(grad, other_sym_sizes_opt)",
        {"other_sym_sizes_opt": "SymInt[]?"},
    ),
    (
        "g(grad, self.sym_blocksize())",
        "g(grad, self_self_sym_blocksize_opt)",
        {"self_self_sym_blocksize_opt": "SymInt[]?"},
    ),
    (
        "g(grad, self.options())",
        "g(grad, self_options)",
        {"self_options": "__torch__.torch.classes.TensorOptions"},
    ),
    (
        "zeros_like(self) * grad",
        "self_info.zeros() * grad",
        {"self_info": "__torch__.torch.classes.TypeAndSize"},
    ),
    ("grad * self.sym_size(0)", "grad * self_sym_argsize_0", {"self_sym_argsize_0": "SymInt"}),
    (
        "grad * self.sym_size(-1)",
        "grad * self_sym_argsize_minus_1",
        {"self_sym_argsize_minus_1": "SymInt"},
    ),
    (
        "grad * self.sym_size(k)",
        "grad * self_sym_argsize_k",
        {"self_sym_argsize_k": "SymInt"},
    ),
    ("grad / self.numel()", "grad / self_numel", {"self_numel": "int"}),
    ("grad / self.sym_numel()", "grad / self_sym_numel", {"self_sym_numel": "SymInt"}),
    ("g(grad, to_args_sizes(xs))", "g(grad, xs_args_sizes)", {"xs_args_sizes": "int[][]"}),
    (
        "g(grad, to_args_sizes_symint(xs))",
        "g(grad, xs_args_sizes_symint)",
        {"xs_args_sizes_symint": "SymInt[][]"},
    ),
    (
        "g(grad, to_args_scalartypes(xs))",
        "g(grad, xs_args_scalartypes)",
        {"xs_args_scalartypes": "ScalarType[]"},
    ),
    (
        "g(grad, TensorGeometry(self))",
        "g(grad, self_geometry)",
        {"self_geometry": "__torch__.torch.classes.TensorGeometry"},
    ),
    (
        "grad.to(self.scalar_type())",
        "grad.to(self_scalar_type)",
        {"self_scalar_type": "ScalarType"},
    ),
    ("g(grad, self.dim())", "g(grad, self_dim)", {"self_dim": "int"}),
    ("g(grad, self.sym_strides())", "g(grad, self_sym_strides)", {"self_sym_strides": "SymInt[]"}),
    ("g(grad, self.layout())", "g(grad, self_layout)", {"self_layout": "Layout"}),
    ("g(grad, self.is_conj())", "g(grad, self_conjugate)", {"self_conjugate": "bool"}),
    ("grad * self", "grad * self", {"self": "Tensor"}),
    ("grad * result.dim()", "grad * result_dim", {"result_dim": "int"}),
    ("grad * result", "grad * result", {"result": "Tensor"}),
    (
        "grad * self.dim() * self",
        "grad * self_dim * self",
        {"self_dim": "int", "self": "Tensor"},
    ),
    ("grad . sum( )*self . dim( )", "grad . sum( )*self_dim", {"self_dim": "int"}),
]


@pytest.mark.parametrize(("formula", "rewritten", "fields"), SAVED, ids=[row[0] for row in SAVED])
def test_saved_attributes_of_formulas(entry, formula, rewritten, fields):
    """Rule 17.15."""
    info = entry(SCHEMA, f"self: {formula}")
    saved = (*info.all_saved_inputs, *info.all_saved_outputs)

    assert info.derivatives[0].formula == rewritten
    assert {s.name: str(s.type) for s in saved} == fields


def test_optional_strings_are_wrapped_again(entry):
    """Rule 17.15."""
    info = entry(SCHEMA, "self: g(grad, mode)")

    assert info.derivatives[0].formula == (
        "g(grad, mode.has_value() ? std::optional<std::string_view>(mode.value()) : std::nullopt)"
    )
    assert [(s.name, str(s.type)) for s in info.all_saved_inputs] == [("mode", "str?")]


def test_tensor_options_are_one_value(entry):
    """Rule 17.15."""
    schema = (
        "f(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
        "bool? pin_memory=None) -> Tensor"
    )
    info = entry(schema, "self: g(grad, options)")

    assert [s.name for s in info.all_saved_inputs] == ["options"]


def test_strides_are_saved_by_an_expression_that_may_fail(entry):
    """Rule 17.15."""
    [saved] = entry(SCHEMA, "self: g(grad, self.sym_strides())").all_saved_inputs

    assert saved.expr == 'strides_or_error(self, "self")'


@pytest.mark.parametrize("names", ["other", "self, other"])
def test_strides_only_in_the_formula_of_their_own_tensor(entry, names):
    """Rule 17.15."""
    with pytest.raises(CodegenError, match=r"self\.sym_strides\(\) may stand only"):
        entry(SCHEMA, f"{names}: g(grad, self.sym_strides())")


@pytest.mark.parametrize(
    ("formula", "instead"),
    [
        ("grad.view(self.sizes())", ".sym_sizes()"),
        ("grad.view(other->sizes())", ".sym_sizes()"),
        ("grad * self.size(0)", ".sym_size()"),
        ("grad * self.size(-1)", ".sym_size()"),
        ("grad * self.strides()", ".sym_strides()"),
    ],
)
def test_forbidden_calls_in_formulas(entry, formula, instead):
    """Rule 17.15."""
    with pytest.raises(CodegenError) as caught:
        entry(SCHEMA, f"self: {formula}")

    assert instead in str(caught.value)


@pytest.mark.parametrize("formula", ["grad * dims.size()", "grad * self.size(k)"])
def test_the_size_of_something_else_is_allowed(entry, formula):
    """Rule 17.15."""
    assert entry(SCHEMA.replace("int k)", "int k, int[] dims)"), f"self: {formula}").has_derivatives


@pytest.mark.parametrize(
    ("formula", "saved"),
    [
        ("grad * self_weight", ["self_weight"]),
        ("grad_other.scalar_type()", []),
        ("self*self*grad", ["self"]),
        ("grad /* self */", ["self"]),
        ('not_implemented("self")', ["self"]),
    ],
)
def test_names_are_whole_words(entry, formula, saved):
    """Rule 17.16."""
    schema = "f(Tensor self, Tensor other, Tensor self_weight) -> Tensor other_x"
    if formula.startswith("grad_other"):
        schema = "f(Tensor self, Tensor x) -> Tensor other"
    info = entry(schema, f"self: '{formula}'")

    assert [s.name for s in info.all_saved_inputs] == saved


def test_only_free_names_are_replaced():
    """Rule 17.16."""
    formula = 'self*self + x.self + at::self + "self" + self_t'

    assert CPP.substitute(formula, {"self": "y"}) == 'y*y + x.self + at::self + "self" + self_t'


@pytest.mark.parametrize(
    ("formula", "uses"),
    [
        ("grad", ()),
        ("g(grads[0], grads[12])", (0, 12)),
        ("g(grads, grads[1])", (None, 1)),
        ("grads[i]", (None,)),
        ("x.grads[0]", ()),
    ],
)
def test_uses_of_the_list_of_gradients(formula, uses):
    """Rule 17.17."""
    assert CPP.gradient_uses(formula) == uses


@pytest.mark.parametrize(
    ("formulas", "message"),
    [
        ("self: g(grads[0], grads[2])", r"grads\[2\] is out of range: f has 2 output\(s\)"),
        ("self: grad * grads[1]", "mix 'grad' and 'grads'"),
        ("self: grad\nother: grads[1]", "mix 'grads' and 'grad'"),
        ("self: g(grads[0])", r"use only grads\[0\]"),
        ("self: grad * grad_a", "mix 'grad' and 'grad_<output>'"),
        ("self: grads[1] * grad_a", "mix 'grads' and 'grad_<output>'"),
    ],
)
def test_gradients_are_named_in_one_way(entry, formulas, message):
    """Rule 17.17."""
    with pytest.raises(CodegenError, match=message):
        entry("f(Tensor self, Tensor other) -> (Tensor a, Tensor b)", formulas)


def test_the_gradient_of_a_non_differentiable_output_has_no_name(entry):
    """Rule 17.17."""
    formulas = "output_differentiability: [True, False]\nself: g(grad_a, grad_b)"

    with pytest.raises(CodegenError, match="reads 'grad_b', which names nothing"):
        entry("f(Tensor self) -> (Tensor a, Tensor b)", formulas)


def test_auto_element_wise_formula(entry):
    """Rule 17.20."""
    info = entry(
        "f(Tensor self, int n) -> Tensor", "self: grad*self.pow(n)\nresult: auto_element_wise"
    )
    [forward] = info.forward_derivatives

    assert forward.formula == "(self_t.conj()*self_p.pow(n)).conj()"
    assert forward.original_formula == "auto_element_wise"
    assert forward.required_inputs_fw_grad == ("self", "n")
    assert forward.required_inputs_primal == ("self",)


@pytest.mark.parametrize(
    ("schema", "variants", "formula"),
    [
        ("f(Tensor self, int n) -> Tensor", "function, method", "at::f(self_t, n)"),
        ("f(Tensor self, int n) -> Tensor", "method", "self_t.f(n)"),
        ("f.x(Tensor self, SymInt n) -> Tensor", "function", "at::f_symint(self_t, n)"),
    ],
)
def test_auto_linear_formula(match_two, schema, variants, formula):
    """Rule 17.20."""
    native = f"- func: {schema}\n  variants: {variants}\n  dispatch: {{CPU: f}}\n"
    derivatives = f"- name: {schema}\n  self: grad\n  result: auto_linear\n"
    [fn] = match_two(native, derivatives).values()

    assert fn.fw_derivatives["Default"][0].formula == formula


def test_the_bare_name_of_a_differentiable_argument_is_ambiguous(entry):
    """Rule 17.20."""
    with pytest.raises(CodegenError, match=r"'self' is ambiguous.*self_p.*self_t"):
        entry("f(Tensor self) -> Tensor", "self: grad\nresult: self_t * self")


def test_the_bare_name_of_a_tensor_list_is_not_ambiguous(entry):
    """Rule 17.20."""
    info = entry("f(Tensor[] xs) -> Tensor", "xs: g(grad)\nresult: h(xs)")

    assert info.forward_derivatives[0].required_inputs_fw_grad == ()


@pytest.mark.parametrize(
    ("schema", "formulas", "message"),
    [
        ("f_(Tensor(a!) self) -> Tensor(a!)", "self: grad\nresult: auto_element_wise", "in-place"),
        (
            "f(Tensor a, Tensor b) -> Tensor",
            "a: grad\nb: grad\nresult: auto_element_wise",
            "exactly one differentiable argument",
        ),
        ("f(Tensor a) -> Tensor", "result: auto_element_wise", "exactly one differentiable"),
        (
            "f(Tensor a) -> (Tensor x, Tensor y)",
            "a: g(grads)\nx: auto_linear\ny: auto_linear",
            "single output",
        ),
        ("f(Tensor a) -> (Tensor x, Tensor y)", "a: g(grads)\nx, y: auto_linear", "single output"),
        ("f(Tensor a) -> Tensor", "result: auto_linear", "needs a differentiable argument"),
    ],
)
def test_where_the_auto_words_do_not_work(entry, schema, formulas, message):
    """Rule 17.20."""
    with pytest.raises(CodegenError, match=message):
        entry(schema, formulas)


@pytest.mark.parametrize("target", ["result", "result0", "x"])
def test_targets_of_a_forward_formula(entry, target):
    """Rule 17.20."""
    info = entry("f(Tensor self) -> Tensor x", f"self: grad\n{target}: self_t")

    assert info.forward_derivatives[0].var_names == (target,)


def test_tokens_of_a_formula():
    formula = 'a->b(1e-5, .5, 2.) ? std::x<T>{} : "s\\"t" /* c */ != 0'

    assert [token.text for token in tokenize(formula)] == [
        *["a", "->", "b", "(", "1e-5", ",", ".5", ",", "2.", ")", "?", "std", "::", "x", "<", "T"],
        *[">", "{", "}", ":", '"s\\"t"', "!=", "0"],
    ]


@pytest.mark.parametrize(
    ("formula", "offset", "message"),
    [
        ("grad * (self", 7, r"'\(' is never closed"),
        ("grad * self)", 11, r"'\)' closes nothing"),
        ("g(grad]", 6, r"'\]' closes nothing"),
        ('grad * "self', 7, "this string has no end"),
        ("grad /* self", 5, "this comment has no end"),
        ("grad @ self", 5, "unexpected character '@'"),
        ("grad * slef", 7, "'slef', which names nothing; did you mean 'self'"),
    ],
)
def test_a_broken_formula_is_refused_where_it_breaks(formula, offset, message):
    with pytest.raises(CodegenError, match=message) as caught:
        CPP.check(formula, {"grad", "self"})

    assert caught.value.offset == offset


@pytest.mark.parametrize(
    "formula",
    [
        "at::where(self > 0, grad, at::zeros({}, grad.options()))",
        "fmap(self, [](c10::SymInt i){return -i;})",
        "std::get<0>(g(grad, kLong, true))",
        "std::tuple<Tensor, Tensor>()",
    ],
)
def test_types_constants_and_locals_of_cpp_are_known(formula):
    CPP.check(formula, {"grad", "self"})
