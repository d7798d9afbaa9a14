"""Every fault in the two-file form is reported with file, line and column."""

from __future__ import annotations

import re

import pytest

from pullback.errors import CodegenError, message_of
from tools.torchgen import load_native_functions, load_tables

F = "f(Tensor self, Tensor other) -> Tensor"
NATIVE = f"- func: {F}\n  dispatch: {{CPU: kernel}}\n"

NATIVE_FAULTS = [
    ("func: f", "1:1", "the table must be a list, not mapping"),
    ("- f(Tensor self) -> Tensor", "1:3", "an operator must be a mapping, not text"),
    ("- variants: method", "1:3", "needs a schema under the key 'func'"),
    ("- func: [f]", "1:9", "a schema must be text, not list"),
    ("- func: 3", "1:9", "a schema must be text, not a number; put it in quotes"),
    ("- func: f(Tensr self) -> Tensor", "1:9", "unrecognized type 'Tensr'; did you mean 'Tensor'?"),
    (f"- func: {F}\n  varients: method", "2:3", "unknown key 'varients'.*did you mean 'variants'?"),
    (
        f"- func: {F}\n  variants: method\n  variants: method",
        "3:3",
        "stands twice.*first on line 2",
    ),
    (f"- func: {F}\n  variants: method, methd", "2:13", "unknown variant 'methd'"),
    (f"- func: {F}\n  structured: maybe", "2:15", "'structured' must be True or False, not text"),
    (f"- func: {F}\n  structured: True", "2:3", "'structured' belongs on the out= function"),
    (f"- func: {F}\n  structured_delegate: f.out", "1:3", "'f.out', which is not declared"),
    (f"- func: {F}\n  tags: {{a: b}}", "2:9", "'tags' must be a list, not mapping"),
    (f"- func: {F}\n  dispatch:\n    CPU: f\n    CUDA, CPU: g", "4:5", "'CPU' stands twice"),
    (
        f"- func: {F}\n  dispatch:\n    CompositeExplicitAutograd: f\n"
        "    CompositeImplicitAutograd: g",
        "3:5",
        "only one composite kernel",
    ),
    (f"- func: {F}\n- func: {F}", "2:3", "f is declared twice; first at native.yaml:1:3"),
    (
        f"- func: {F}\n- func: f.x(Tensor self, Tensor other) -> Tensor",
        "2:3",
        "f.x has the same signature and kind as f, declared at native.yaml:1:3",
    ),
    (
        "- func: f.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)\n  variants: method",
        "2:13",
        "an out= function can only have the variant 'function'",
    ),
    ("- func: f: g", "1:10", "not valid YAML: mapping values are not allowed"),
    ("", None, "the file is empty"),
]


@pytest.mark.parametrize(("text", "place", "message"), NATIVE_FAULTS)
def test_faults_in_the_table_of_operators(read_two, text, place, message):
    with pytest.raises(CodegenError) as caught:
        read_two(text)

    where = "native.yaml" if place is None else f"native.yaml:{place}"
    assert str(caught.value).startswith(f"{where}: ")
    assert re.search(message, str(caught.value))
    assert "\n" not in message_of(caught.value)


NAME = f"- name: {F}\n"
DERIVATIVE_FAULTS = [
    ("name: f", "1:1", "the table must be a list, not mapping"),
    ("- self: grad", "1:3", "needs the schema of its function under the key 'name'"),
    ("- name: True", "1:9", "'name' must be text, not bool; put it in quotes"),
    (
        "- name: f(Tensor self) -> Tensor\n  self: grad",
        "1:9",
        r"could not find a function for schema: f\(Tensor self\) -> Tensor; available: f\(",
    ),
    ("- name: fs(Tensor self) -> Tensor", "1:9", "did you mean 'f'?|could not find a function"),
    (f"{NAME}  self: grad\n{NAME}  self: grad", "3:9", "an entry already, at derivatives.yaml:1:9"),
    (f"{NAME}  self: grad\n  self: grad", "3:3", "'self' stands twice in an entry"),
    (f"{NAME}  self: grad\n  othr: grad", "3:3", "'othr' names neither.*did you mean 'other'?"),
    (f"{NAME}  self, othr: grad", "2:3", "'othr' names neither an argument nor an output of f"),
    (f"{NAME}  self, result: grad", "2:3", "'result' names neither"),
    (f"{NAME}  self: grad\n  result1: self_t", "3:3", "'result1' names neither"),
    (f"{NAME}  self: 1", "2:9", "the formula of 'self' must be text, not a number"),
    (f"{NAME}  self:", "2:8", "the formula of 'self' must be text, not empty"),
    (f'{NAME}  self: ""', "2:9", "the formula is empty"),
    (f"{NAME}  self: grad * othr", "2:16", "'othr', which names nothing; did you mean 'other'?"),
    (f"{NAME}  self: grad *\n    othr", "3:5", "'othr', which names nothing"),
    (f'{NAME}  self: "grad * othr"', "2:17", "'othr', which names nothing"),
    (f"{NAME}  self: >-\n    grad *\n    othr", "4:5", "'othr', which names nothing"),
    (f"{NAME}  self: grad * (other", "2:16", r"'\(' is never closed"),
    (f"{NAME}  self: grad * other.sizes()", "2:22", r"\.sizes\(\) is not supported"),
    (f"{NAME}  self: grad\n  result: self_t * othr_p", "3:20", "'othr_p', which names nothing"),
    (f"{NAME}  self: grad\n  result: self", "3:11", "'self' is ambiguous"),
    (f"{NAME}  self: g(grads[3])", "2:9", r"grads\[3\] is out of range"),
    (f"{NAME}  self: non_differentiable\n  self, other: grad", "3:3", "overlapped"),
    (f"{NAME}  self: grad\n  self, other: grad", "2:3", "overlapped"),
    (f"{NAME}  self, self: grad", "2:3", "'self, self' names something twice"),
    (f"{NAME}  dispatch:\n    Default: {{self: grad}}\n  other: grad", "4:3", "beside 'dispatch'"),
    (f"{NAME}  dispatch:\n    Cpu: {{self: grad}}", "3:5", "Invalid dispatch key 'Cpu'"),
    (f"{NAME}  dispatch:\n    Default: grad", "3:14", "the section 'Default' must be a mapping"),
    (f"{NAME}  output_differentiability: True", "2:29", "must be a list, not bool"),
    (f"{NAME}  output_differentiability: [1]", "2:30", "must be True or False, not a number"),
    (f"{NAME}  output_differentiability: [True, False]", "2:29", r"2 element\(s\).*1 output\(s\)"),
    (f"{NAME}  output_differentiability: [a, True]", "2:29", "Not supported"),
]


@pytest.mark.parametrize(("text", "place", "message"), DERIVATIVE_FAULTS)
def test_faults_in_the_table_of_derivatives(read_two, text, place, message):
    with pytest.raises(CodegenError) as caught:
        read_two(NATIVE, text)

    assert str(caught.value).startswith(f"derivatives.yaml:{place}: ")
    assert re.search(message, str(caught.value))
    assert "\n" not in message_of(caught.value)


@pytest.mark.parametrize("name", ["grad_input_mask", "result"])
def test_reserved_argument_names(read_two, name):
    schema = f"f(Tensor self, Tensor {name}) -> Tensor"

    with pytest.raises(CodegenError, match=rf"^derivatives\.yaml:1:9: .*named '{name}'"):
        read_two(f"- func: {schema}", f"- name: {schema}\n  self: grad\n")


def test_an_in_place_output_is_always_differentiable(read_two):
    schema = "f_(Tensor(a!) self) -> Tensor(a!)"
    derivatives = f"- name: {schema}\n  output_differentiability: [False]\n"

    with pytest.raises(CodegenError, match=r"^derivatives\.yaml:2:29: .*cannot be False"):
        read_two(f"- func: {schema}", derivatives)


def test_a_name_cannot_be_argument_and_output(read_two):
    schema = "f(Tensor x) -> Tensor x"

    with pytest.raises(CodegenError, match=r"^derivatives\.yaml:2:3: 'x' is both"):
        read_two(f"- func: {schema}", f"- name: {schema}\n  x: grad\n")


def test_a_delegate_must_be_structured(read_two):
    native = """
- func: f(Tensor self) -> Tensor
  structured_delegate: f.out
- func: f.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)
"""
    with pytest.raises(CodegenError, match=r"^native\.yaml:2:3: .*native\.yaml:4:3\n"):
        read_two(native)


def test_a_formula_needs_a_function_to_be_about(read_two):
    schema = "f.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)"

    with pytest.raises(CodegenError, match=r"^derivatives\.yaml:1:9: .*neither functional nor"):
        read_two(f"- func: {schema}", f"- name: {schema}\n  self: grad\n")


def test_unknown_tags_are_refused_if_the_tags_are_known(tmp_path):
    native, tags = tmp_path / "native.yaml", tmp_path / "tags.yaml"
    native.write_text(f"- func: {F}\n  tags: [core, croe]\n")
    tags.write_text("- tag: core\n  desc: the smallest set of operators\n")

    assert load_native_functions(native)[0].tags == {"core", "croe"}
    with pytest.raises(CodegenError) as caught:
        load_native_functions(native, tags)
    assert message_of(caught.value) == f"{native}:2:16: unknown tag 'croe'; did you mean 'core'?"


def test_a_missing_file_is_named(tmp_path):
    missing = tmp_path / "gone.yaml"

    with pytest.raises(CodegenError, match=rf"^{re.escape(str(missing))}: cannot read this file"):
        load_tables(missing, missing)


def test_a_file_must_be_text(tmp_path):
    binary = tmp_path / "native.yaml"
    binary.write_bytes(b"\xff\xfe- func")

    with pytest.raises(CodegenError, match="not a text in UTF-8"):
        load_tables(binary, binary)
