"""Tables in Pullback's own form: loaded like PyTorch's, from a single entry an operator."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pullback.codegen import Arity, dispatch_strategy, gen_differentiable_outputs, load_ops
from pullback.errors import CodegenError, message_of

SAMPLE = Path(__file__).with_name("sample_ops.yaml")


def test_one_entry_makes_all_variants(sample_ops):
    schemas = {name: str(fn.func.func) for name, fn in sample_ops.items() if name.startswith("mul")}

    assert schemas == {
        "mul": "mul(Tensor self, Tensor other) -> Tensor",
        "mul_": "mul_(Tensor(a!) self, Tensor other) -> Tensor(a!)",
        "mul.out": "mul.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)",
    }


def test_variants_find_the_formulas_in_step_2(sample_ops):
    steps = {name: (fn.step, fn.exact) for name, fn in sample_ops.items()}

    assert steps["mul"] == steps["sum"] == (1, True)
    assert steps["mul_"] == steps["mul.out"] == steps["sum.out"] == (2, False)
    assert steps["square"] == (None, False)
    assert sample_ops["mul_"].info["Default"].op == "MulBackward0"


def test_fields_of_an_entry(sample_ops):
    mul, square = sample_ops["mul"].func, sample_ops["square"].func

    assert mul.doc == "Multiplies element by element, with broadcasting."
    assert mul.tags == {"elementwise"}
    assert mul.variants == {"function", "method"}
    assert sample_ops["mul_"].func.variants == {"method"}
    assert sample_ops["mul.out"].func.variants == {"function"}
    assert dict(mul.dispatch) == {"CPU": "numpy.multiply", "Meta": "elementwise"}
    assert mul.is_abstract
    assert dict(square.dispatch) == {"CompositeImplicitAutograd": "square"}
    assert dispatch_strategy(sample_ops["square"]) == "use_type"


@pytest.mark.parametrize(
    ("name", "formulas"),
    [
        ("mul", ["grad * conj(self)", "grad * conj(other)"]),
        ("sum", ["expand_reduced(grad, self_shape, axis, keepdims)"]),
        ("concatenate", ["split_at(grad, tensors_shapes, axis)"]),
        ("sort", ["put_along_axis(zeros(self_shape, self_dtype), indices, grad, axis)"]),
        ("linear", ["linear_backward(grad, x, weight, bias_shape, grad_input_mask)"]),
    ],
)
def test_backward_formulas(sample_ops, name, formulas):
    info = sample_ops[name].info["Default"]

    assert [d.formula for d in info.derivatives] == formulas


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("mul", "self_t * other_p + self_p * other_t"),
        ("mul_", "original_self_t * other_p + original_self_p * other_t"),
        ("exp", "conj(conj(self_t) * conj(result))"),
        ("exp_", "conj(conj(self_t) * conj(self_p))"),
        ("sum", "sum(self_t, axis, keepdims=keepdims)"),
        ("transpose", "transpose(self_t, axis0, axis1)"),
        ("concatenate", "concatenate(tensors_t, axis)"),
        ("take", "take(self_t, index, axis)"),
    ],
)
def test_forward_formulas(sample_ops, name, formula):
    [forward] = sample_ops[name].fw_derivatives["Default"]

    assert forward.formula == formula


def test_outputs(sample_ops):
    outputs = {
        name: [o.name for o in gen_differentiable_outputs(sample_ops[name])]
        for name in ("sort", "isnan", "exp_")
    }

    assert outputs == {"sort": ["values"], "isnan": [], "exp_": ["self"]}


def test_sections_by_autograd_key(sample_ops):
    ops = {key: info.op for key, info in sample_ops["take"].info.items()}

    assert ops == {"Default": "TakeBackward0", "AutogradMeta": "TakeBackwardAutogradMeta0"}


def test_formulas_may_call_operators_of_the_tables_and_given_functions():
    helpers = ("conj", "expand_reduced", "split_at", "put_along_axis", "take_along_axis")
    given = dict.fromkeys((*helpers, "take_backward", "linear_backward", "linear_jvp"))

    assert load_ops(SAMPLE, functions=given).entries
    with pytest.raises(CodegenError, match=rf"^{re.escape(str(SAMPLE))}:10:19: 'conj' is no func"):
        load_ops(SAMPLE, functions={})
    with pytest.raises(CodegenError, match=r":10:19: conj takes 2 argument\(s\), but 1 are given"):
        load_ops(SAMPLE, functions={**given, "conj": Arity(2, 2)})


def test_the_arguments_of_an_operator_are_counted(match_ops):
    text = """
- func: f(Tensor self, int n, int m=1) -> Tensor
  doc: Does something.
  dispatch: {CPU: f}
  derivatives: {self: f(grad)}
"""
    with pytest.raises(CodegenError, match=r"^ops\.yaml:5:23: f takes 2 to 3 argument\(s\)"):
        match_ops(text, {})


def test_several_files_are_one_table(tmp_path):
    entry = "- func: {}(Tensor self) -> Tensor\n  doc: Does something.\n"
    for name in ("f", "g"):
        (tmp_path / f"{name}.yaml").write_text(entry.format(name))

    tables = load_ops(tmp_path / "f.yaml", tmp_path / "g.yaml")
    assert [str(f.func.name) for f in tables.functions] == ["f", "g"]
    with pytest.raises(CodegenError, match=r"f\.yaml:1:9: f is declared twice; first by .*:1:3\n"):
        load_ops(tmp_path / "f.yaml", tmp_path / "f.yaml")


def _entry(func="f(Tensor self) -> Tensor", **fields):
    fields = {"doc": "Does something.", "dispatch": "{CPU: f}", **fields}
    lines = [f"- func: {func}", *(f"  {k}: {v}" for k, v in fields.items() if v is not None)]
    return "\n".join(lines)


GRAD = "{self: grad}"
FAULTS = [
    ("f: x", "1:1", "the table must be a list"),
    ("- doc: x", "1:3", "an operator needs the key 'func'"),
    (_entry(doc=None), "1:3", "an operator needs the key 'doc'"),
    (_entry(doc="''"), "2:8", "'doc' must be one line"),
    (_entry(dok="x"), "4:3", "unknown key 'dok' in an operator; did you mean 'doc'?"),
    (_entry("f(Tensor self) > Tensor"), "1:9", "Invalid function schema"),
    (_entry(variants="function"), "4:13", "'variants' must be a list, not text"),
    (_entry(variants="[function, outt]"), "4:24", "unknown element 'outt'.*did you mean 'out'?"),
    (_entry(variants="[out]"), "4:13", "f needs the variant 'function' or 'method'"),
    (_entry(variants="[method, method]"), "4:22", "'method' stands twice"),
    (_entry(dispatch="f"), "3:13", "'dispatch' must be a mapping"),
    (_entry(dispatch="{CPU: [f]}"), "3:19", "the kernel for 'CPU' must be text"),
    (
        _entry("f(Tensor x) -> Tensor", variants="[method, inplace]"),
        "4:13",
        "needs an argument 'Tensor self'",
    ),
    (_entry("f(Tensor self) -> int", variants="[function, out]"), "4:13", "returns no tensor"),
    (
        _entry("f(Tensor(a) self) -> Tensor(a)", variants="[method, inplace]"),
        "4:13",
        "is a view, which has no variant",
    ),
    (
        _entry("f_(Tensor(a!) self) -> Tensor(a!)", variants="[function, out]"),
        "4:13",
        "f_ is inplace; the variants",
    ),
    (_entry(), "1:9", "f has kernels but no 'derivatives'"),
    (
        _entry("f(Tensor self, Tensor w) -> Tensor", derivatives=GRAD),
        "1:9",
        "the argument 'w' of f has no derivative under key 'Default'",
    ),
    (_entry(derivatives="grad"), "4:16", "the formulas must be a mapping"),
    (_entry(derivatives="{slef: grad}"), "4:17", "'slef' names neither.*did you mean 'self'?"),
    (_entry(derivatives="{self: grad * slef}"), "4:30", "'slef', which names nothing"),
    (_entry(derivatives="{self: grad $ 1}"), "4:28", "not a Python expression"),
    (
        _entry(derivatives="\n    self: >\n      grad *\n      slef"),
        "7:7",
        "'slef', which names nothing",
    ),
    (_entry(derivatives="{self: grad, result: self_t * slef_p}"), "4:46", "'slef_p', which names"),
    (_entry(derivatives="{dispatch: {Cpu: {self: grad}}}"), "4:28", "Invalid dispatch key 'Cpu'"),
    (
        _entry(output_differentiability="[True, True]", derivatives=GRAD),
        "4:29",
        r"2 element\(s\), but f has 1 output\(s\)",
    ),
]


@pytest.mark.parametrize(("text", "place", "message"), FAULTS)
def test_faults_are_reported_with_their_place(match_ops, text, place, message):
    """Rule 17.30."""
    with pytest.raises(CodegenError) as caught:
        match_ops(text)

    assert str(caught.value).startswith(f"ops.yaml:{place}: ")
    assert re.search(message, str(caught.value))
    assert "\n" not in message_of(caught.value)


def test_a_factory_needs_no_derivatives(match_ops):
    """Rule 17.30."""
    assert match_ops(_entry("f(int n) -> Tensor"))["f"].info is None


def test_an_absent_gradient_is_stated_by_the_formula_itself(match_ops):
    text = _entry(derivatives="""{self: "not_implemented('f')"}""")

    assert match_ops(text)["f"].info["Default"].has_derivatives


def test_formulas_of_foreach_functions_are_indexed_once(match_ops):
    ops = """
- func: f.Scalar(Tensor self, Scalar other) -> Tensor
  doc: Does something.
  dispatch: {CPU: f}
  derivatives: {self: "g(self.dtype, self)"}
- func: _foreach_f.ScalarList(Tensor[] self, Scalar[] scalars) -> Tensor[]
  doc: Does something to each tensor.
  dispatch: {CPU: f}
"""
    info = match_ops(ops)["_foreach_f.ScalarList"].info["Default"]

    assert info.derivatives[0].formula == "g(self[i].dtype, self[i])"
