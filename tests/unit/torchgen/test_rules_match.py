"""17.21 to 17.24: which function uses whose derivatives, and in what form."""

from __future__ import annotations

import pytest

from pullback.codegen import gen_foreach_derivativeinfo, is_reference_for_foreach
from pullback.codegen.load_yaml import parse_yaml
from pullback.errors import CodegenError
from pullback.schema import parse_schema
from tools.torchgen.load_native import native_functions


def _native(*schemas):
    return "".join(f"- func: {schema}\n  dispatch: {{CPU: kernel}}\n" for schema in schemas)


VIEW = "v.int(Tensor(a) self, int n) -> Tensor(a)"
COPY = "v_copy.int(Tensor self, int n) -> Tensor"


def test_the_copying_twin_gets_the_formulas_of_the_view(match_two):
    """Rule 17.21."""
    derivatives = f"- name: {VIEW}\n  self: grad.v(n)\n  result: auto_linear\n"
    twin = match_two(_native(VIEW, COPY), derivatives)["v_copy.int"]
    info = twin.info["Default"]

    assert (twin.step, twin.exact) == (1, True)
    assert (info.name, info.op) == ("v_copy.", "VBackward0_copy")
    assert str(info.func.func) == COPY
    assert info.forward_derivatives[0].formula == "at::v(self_t, n)"


def test_an_entry_of_the_twin_itself_comes_first(match_two):
    """Rule 17.21."""
    derivatives = f"- name: {VIEW}\n  self: grad.v(n)\n- name: {COPY}\n  self: grad.w(n)\n"
    info = match_two(_native(VIEW, COPY), derivatives)["v_copy.int"].info["Default"]

    assert info.op == "VCopyBackward0"


FUNCTIONAL = "f(Tensor self, int n=1) -> Tensor"
INPLACE = "f_(Tensor(a!) self, int n=2) -> Tensor(a!)"
OUT = "f.out(Tensor self, int n, *, Tensor(a!) out) -> Tensor(a!)"


def test_step_1_exact_schema(match_two):
    """Rule 17.22."""
    derivatives = f"- name: {FUNCTIONAL}\n  self: grad\n- name: {INPLACE}\n  self: grad * n\n"
    matched = match_two(_native(FUNCTIONAL, INPLACE), derivatives)

    assert [(fn.step, fn.exact) for fn in matched.values()] == [(1, True), (1, True)]
    assert matched["f_"].info["Default"].derivatives[0].formula == "grad * n"


def test_step_2_signature_without_defaults(match_two):
    """Rule 17.22."""
    matched = match_two(_native(FUNCTIONAL, INPLACE, OUT), f"- name: {FUNCTIONAL}\n  self: grad\n")

    assert {name: (fn.step, fn.exact) for name, fn in matched.items()} == {
        "f": (1, True),
        "f_": (2, False),
        "f.out": (2, False),
    }
    assert matched["f_"].info is matched["f.out"].info


MUTABLE = "m(Tensor x, Tensor(a!) buffer) -> Tensor"


def _generating(formula):
    native = f"- func: {MUTABLE}\n  dispatch: {{CPU: m}}\n  autogen: m_functional, m.out\n"
    return native, f"- name: {MUTABLE}\n  x: {formula}\n"


def test_step_3_generated_function_of_a_mutating_one(match_two):
    """Rule 17.22."""
    matched = match_two(*_generating("grad * buffer"))

    assert {name: (fn.step, fn.exact) for name, fn in matched.items()} == {
        "m": (1, True),
        "m_functional": (3, False),
        "m.out": (None, False),
    }


def test_step_3_refuses_formulas_that_save_self(match_two):
    """Rule 17.22."""
    native = """
- func: f_(Tensor(a!) self, Tensor other) -> Tensor(a!)
  dispatch: {CPU: f_}
  autogen: f, f.out
"""
    derivatives = (
        "- name: f_(Tensor(a!) self, Tensor other) -> Tensor(a!)\n  other: grad * self.dim()\n"
    )
    with pytest.raises(CodegenError, match=r"^native\.yaml:2:3: .*save 'self_dim'"):
        match_two(native, derivatives)


def test_a_generated_out_function_is_never_matched(match_two):
    """Rule 17.22."""
    native = f"- func: {FUNCTIONAL}\n  dispatch: {{CPU: f}}\n  autogen: f.out\n"
    matched = match_two(native, f"- name: {FUNCTIONAL}\n  self: grad\n")

    assert matched["f.out"].func.is_generated
    assert matched["f.out"].info is None


def test_functions_are_sorted_by_their_name_in_the_interface(match_two):
    """Rule 17.22."""
    matched = match_two(_native("g(Tensor self) -> Tensor", OUT, FUNCTIONAL, INPLACE))

    assert list(matched) == ["f", "f_", "f.out", "g"]


def test_function_without_matching_entry_has_no_info(match_two):
    """Rule 17.22."""
    fn = match_two(_native(FUNCTIONAL))["f"]

    assert (fn.info, fn.fw_derivatives, fn.step, fn.exact) == (None, None, None, False)


@pytest.mark.parametrize(
    ("foreach", "reference", "fits"),
    [
        ("_foreach_f(Tensor[] self) -> Tensor[]", "f(Tensor self) -> Tensor", True),
        ("_foreach_f(Tensor[] self) -> Tensor[]", "g(Tensor self) -> Tensor", False),
        ("_foreach_f(Tensor[] self) -> Tensor[]", "f_(Tensor(a!) self) -> Tensor(a!)", False),
        ("_foreach_zero_(Tensor(a!)[] self) -> ()", "zero_(Tensor(a!) self) -> Tensor(a!)", True),
        ("_foreach_f(Tensor[] self) -> Tensor[]", "f(Tensor self, int n) -> Tensor", False),
        (
            "_foreach_add.Scalar(Tensor[] self, Scalar scalar) -> Tensor[]",
            "add(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
            True,
        ),
        (
            "_foreach_f.ScalarList(Tensor[] self, Scalar[] scalars) -> Tensor[]",
            "f(Tensor self, Scalar other) -> Tensor",
            True,
        ),
        (
            "_foreach_f.List(Tensor[] self, Tensor[] other) -> Tensor[]",
            "f(Tensor self, Scalar other) -> Tensor",
            False,
        ),
    ],
)
def test_reference_of_foreach_function(foreach, reference, fits):
    """Rule 17.23."""
    [function] = native_functions(parse_yaml(f"- func: {foreach}"))

    assert is_reference_for_foreach(function, parse_schema(reference)) is fits


SCALAR = "f.Scalar(Tensor self, Scalar other) -> Tensor"
LIST = "_foreach_f.ScalarList(Tensor[] self, Scalar[] scalars) -> Tensor[]"
INPLACE_LIST = "_foreach_f_.ScalarList(Tensor(a!)[] self, Scalar[] scalars) -> ()"
FOREACH_FORMULAS = f"""
- name: {SCALAR}
  self: g(grad, self.scalar_type(), other, result)
  result: h(self_t, other, result)
"""


def test_out_of_place_formulas_are_made_for_element_i(match_two):
    """Rule 17.23."""
    fn = match_two(_native(SCALAR, LIST), FOREACH_FORMULAS)["_foreach_f.ScalarList"]
    info = fn.info["Default"]
    [derivative], [forward] = info.derivatives, info.forward_derivatives

    assert (fn.step, fn.exact, info.op) == (4, True, "ForeachFBackward0ScalarList")
    assert derivative.formula == "g(grads[i], self[i].scalar_type(), scalars[i], result[i])"
    assert derivative.original_formula == "g(grad, self_scalar_type, other, result)"
    assert [(s.name, str(s.type)) for s in info.all_saved_inputs] == [
        ("self", "Tensor[]"),
        ("scalars", "Scalar[]"),
    ]
    assert [(s.name, str(s.type)) for s in info.all_saved_outputs] == [("result", "Tensor[]")]
    assert forward.formula == "h(self_t, scalars[i], result[i])"
    assert info.available_named_gradients == ()


def test_in_place_uses_the_reference_as_it_is(match_two):
    """Rule 17.23."""
    matched = match_two(_native(SCALAR, INPLACE_LIST), FOREACH_FORMULAS)
    fn = matched["_foreach_f_.ScalarList"]

    assert (fn.step, fn.exact) == (4, False)
    assert fn.info["Default"] is matched["f.Scalar"].info["Default"]


def test_an_explicit_entry_comes_first(match_two):
    """Rule 17.23."""
    derivatives = f"{FOREACH_FORMULAS}- name: {LIST}\n  self: g(grads[i], scalars[i])\n"
    fn = match_two(_native(SCALAR, LIST), derivatives)["_foreach_f.ScalarList"]

    assert (fn.step, fn.exact) == (1, True)


def test_only_foreach_zero_uses_mutating_references(match_two):
    """Rule 17.23."""
    zero, foreach = (
        "zero_(Tensor(a!) self) -> Tensor(a!)",
        "_foreach_zero_(Tensor(a!)[] self) -> ()",
    )
    fn = match_two(_native(zero, foreach), f"- name: {zero}\n  self: zeros_like(grad)\n")[
        "_foreach_zero_"
    ]

    assert (fn.step, fn.exact, fn.info["Default"].op) == (4, False, "ZeroBackward0")


def test_without_a_reference_there_is_nothing(match_two):
    """Rule 17.23."""
    assert match_two(_native(LIST))["_foreach_f.ScalarList"].info is None


def test_only_the_section_default_is_a_reference(read_two):
    """Rule 17.23."""
    derivatives = f"- name: {SCALAR}\n  dispatch:\n    AutogradCPU: {{self: grad}}\n"
    tables = read_two(_native(SCALAR, LIST), derivatives)
    [foreach] = [f for f in tables.functions if f.func.name.name.base.startswith("_foreach")]
    infos = {schema.signature(): by_key for schema, by_key in tables.entries.items()}

    assert gen_foreach_derivativeinfo(foreach, infos, {}) == (None, False)


def test_a_reference_that_saves_part_of_its_output_is_refused(match_two):
    """Rule 17.23."""
    derivatives = f"- name: {SCALAR}\n  self: g(grad, result.dim())\n"

    with pytest.raises(CodegenError, match=r"^native\.yaml:1:3: .*saves 'result_dim'"):
        match_two(_native(SCALAR, LIST), derivatives)


def test_pytorch_indexes_twice_what_is_saved_whole_and_in_part(match_two):
    """Rule 17.23.

    So ``_foreach_addcdiv`` fails for 0-d tensors there; its tables are read as it reads them.
    """
    derivatives = f"- name: {SCALAR}\n  self: g(self.scalar_type(), self)\n"
    info = match_two(_native(SCALAR, LIST), derivatives)["_foreach_f.ScalarList"].info["Default"]

    assert info.derivatives[0].formula == "g(self[i][i].scalar_type(), self[i])"


def _inplace_forward(match_two, formula, inplace_formula=None):
    functional, inplace = (
        "f(Tensor self, Tensor x) -> Tensor",
        ("f_(Tensor(a!) self, Tensor x) -> Tensor(a!)"),
    )
    derivatives = f"- name: {functional}\n  self: grad\n  x: grad\n  result: {formula}\n"
    if inplace_formula:
        derivatives += f"- name: {inplace}\n  self: grad\n  x: grad\n  result: {inplace_formula}\n"
    [forward] = match_two(_native(functional, inplace), derivatives)["f_"].fw_derivatives["Default"]
    return forward


@pytest.mark.parametrize(
    ("formula", "written"),
    [
        ("self_t + x_t", "copy_(self_t + x_t)"),
        ("self_t.f(x_t)", "f_(x_t)"),
        ("self_t.f(g(x_t), 1)", "f_(g(x_t), 1)"),
        ("self_t.g(x_t)", "copy_(self_t.g(x_t))"),
        ("self_t.f(x_t) + self_t.f(x_t)", "copy_(self_t.f(x_t) + self_t.f(x_t))"),
        ("self_t.f(x_t).g()", "copy_(self_t.f(x_t).g())"),
    ],
)
def test_an_existing_tangent_is_written_to(match_two, formula, written):
    """Rule 17.24."""
    forward = _inplace_forward(match_two, formula)

    assert forward.formula == f"self_t_raw.defined() ? self_t_raw.{written} : {formula}"
    assert forward.var_names == ("self",)
    assert forward.is_reusing_outplace_formula
    assert not forward.required_original_self_value


def test_self_becomes_the_original_self(match_two):
    """Rule 17.24."""
    forward = _inplace_forward(match_two, "self_t * x_p + self_p * x_t")
    changed = "original_self_t * x_p + original_self_p * x_t"

    assert forward.formula == f"self_t_raw.defined() ? self_t_raw.copy_({changed}) : {changed}"
    assert forward.required_original_self_value


def test_the_result_becomes_self(match_two):
    """Rule 17.24."""
    forward = _inplace_forward(match_two, "self_t * result")

    assert "self_t * self_p" in forward.formula
    assert "original" not in forward.formula
    assert forward.required_inputs_primal == ("self",)


def test_a_formula_for_the_in_place_function_is_used_as_it_is(match_two):
    """Rule 17.24."""
    forward = _inplace_forward(match_two, "self_t", "x_t * result")

    assert forward.formula == "x_t * self_p"
    assert not forward.is_reusing_outplace_formula


def test_a_formula_for_the_in_place_function_cannot_read_the_old_value(match_two):
    """Rule 17.24."""
    with pytest.raises(
        CodegenError, match=r"^native\.yaml:3:3: .*using the original value of self"
    ):
        _inplace_forward(match_two, "self_t", "self_t * self_p")


def test_a_formula_for_the_in_place_function_may_name_the_original(match_two):
    """Rule 17.24."""
    forward = _inplace_forward(match_two, "self_t", "x_t * original_self_p")

    assert forward.required_original_self_value


def test_an_in_place_function_cannot_save_the_strides_of_self(match_two):
    """Rule 17.24."""
    functional, inplace = "f(Tensor self) -> Tensor", "f_(Tensor(a!) self) -> Tensor(a!)"
    derivatives = f"- name: {functional}\n  self: g(grad, self.sym_strides())\n"

    assert match_two(_native(functional), derivatives)["f"].info is not None
    with pytest.raises(CodegenError, match=r"^native\.yaml:3:3: .*saves its strides"):
        match_two(_native(functional, inplace), derivatives)


def test_an_in_place_function_needs_a_single_forward_formula(match_two):
    """Rule 17.24."""
    inplace = "f_(Tensor(a!) self) -> Tensor(a!)"
    derivatives = f"- name: {inplace}\n  self: grad\n  result: self_t\n  result0: self_t\n"

    with pytest.raises(CodegenError, match="needs one forward formula, not 2"):
        match_two(_native(inplace), derivatives)
