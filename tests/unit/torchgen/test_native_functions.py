"""17.7 and 17.8: what the table of operators says, and what is added to it."""

from __future__ import annotations

import pytest

from pullback.codegen.native import families, view_groups
from pullback.codegen.variants import out_schema
from pullback.errors import CodegenError
from pullback.schema import parse_schema
from tools.torchgen.generated import functional_schema


def _function(read_two, text):
    [function, *_] = read_two(text).functions
    return function


@pytest.mark.parametrize(
    ("fields", "abstract"),
    [
        ("", False),
        ("  dispatch: {CompositeImplicitAutograd: g}\n", False),
        ("  dispatch: {CompositeImplicitAutogradNestedTensor: g}\n", False),
        (
            "  dispatch:\n"
            "    CompositeImplicitAutograd: g\n"
            "    CompositeImplicitAutogradNestedTensor: h\n",
            False,
        ),
        ("  dispatch: {CompositeExplicitAutograd: g}\n", True),
        ("  dispatch: {CompositeImplicitAutograd: g, SparseCPU: h}\n", True),
        ("  dispatch: {'CPU, CUDA': g}\n", True),
    ],
)
def test_abstract_unless_all_kernels_are_implicit(read_two, fields, abstract):
    """Rule 17.7."""
    function = _function(read_two, f"- func: f(Tensor self) -> Tensor\n{fields}")

    assert function.is_abstract is abstract


def test_no_dispatch_section_means_composite_implicit(read_two):
    """Rule 17.7."""
    function = _function(read_two, "- func: f(Tensor self) -> Tensor")

    assert dict(function.dispatch) == {"CompositeImplicitAutograd": "f"}


def test_a_structured_delegate_makes_a_function_abstract(read_two):
    """Rule 17.7."""
    text = """
- func: f(Tensor self) -> Tensor
  structured_delegate: f.out
- func: f.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)
  structured: True
  dispatch: {CPU: f_out}
"""
    function = _function(read_two, text)

    assert function.is_abstract
    assert dict(function.dispatch) == {}


@pytest.mark.parametrize(
    ("schema", "tags", "view"),
    [
        ("f(Tensor self) -> Tensor", "[]", False),
        ("f(Tensor(a) self) -> Tensor(a)", "[]", True),
        ("f(Tensor(a -> *) self) -> Tensor(a)[]", "[]", True),
        ("f_(Tensor(a!) self) -> Tensor(a!)", "[]", False),
        ("f_(Tensor(a!) self) -> Tensor(a!)", "inplace_view", True),
        ("resize_(Tensor(a!) self) -> Tensor(a!)", "[inplace_view]", False),
        ("resize_as_(Tensor(a!) self) -> Tensor(a!)", "[inplace_view]", False),
    ],
)
def test_view_operators(read_two, schema, tags, view):
    """Rule 17.7."""
    assert _function(read_two, f"- func: {schema}\n  tags: {tags}").is_view_op is view


def test_autogen_completes_a_family(read_two):
    """Rule 17.8."""
    text = """
- func: f_.Scalar(Tensor(a!) self, Scalar x) -> Tensor(a!)
  dispatch: {CPU: f_}
  autogen: f.Scalar, f.Scalar_out
  tags: [nondeterministic_seeded, core]
"""
    _, out, functional = read_two(text).functions

    assert str(out.func) == "f.Scalar_out(Tensor self, Scalar x, *, Tensor(a!) out) -> Tensor(a!)"
    assert str(functional.func) == "f.Scalar(Tensor self, Scalar x) -> Tensor"
    for made in (out, functional):
        assert made.tags == {"generated", "nondeterministic_seeded"}
        assert made.variants == {"function"}
        assert set(made.dispatch) == {"CompositeExplicitAutograd"}
        assert made.is_abstract


def test_the_mutable_function_is_the_base_and_its_twin_is_called_functional(read_two):
    """Rule 17.8."""
    text = """
- func: f(Tensor self, Tensor(a!) buffer) -> Tensor
  dispatch: {CPU: f}
  autogen: f_functional, f.out
"""
    _, out, functional = read_two(text).functions

    assert str(out.func) == (
        "f.out(Tensor self, Tensor(a!) buffer, *, Tensor(b!) out) -> Tensor(b!)"
    )
    assert str(functional.func) == (
        "f_functional(Tensor self, Tensor buffer) -> (Tensor, Tensor buffer_out)"
    )


@pytest.mark.parametrize(
    "fields",
    [
        "  autogen: f.out\n",
        "  dispatch: {CPU: f}\n  manual_cpp_binding: True\n  autogen: f.out\n",
        "  dispatch: {CPU: f}\n",
    ],
    ids=["composite implicit", "manual", "not asked for"],
)
def test_complete_families_generate_nothing(read_two, fields):
    """Rule 17.8."""
    [function] = read_two(f"- func: f(Tensor self) -> Tensor\n{fields}").functions

    assert not function.is_generated


def test_core_functions_are_completed_even_if_composite(read_two):
    """Rule 17.8."""
    text = "- func: f(Tensor self) -> Tensor\n  tags: core\n  autogen: f.out\n"
    _, out = read_two(text).functions

    assert out.is_generated
    assert not out.is_abstract


def test_views_are_not_completed(read_two):
    """Rule 17.8."""
    text = "- func: f(Tensor(a) self) -> Tensor(a)\n  dispatch: {CPU: f}\n  autogen: f.out\n"

    assert len(read_two(text).functions) == 1


def test_impossible_autogen_is_refused(read_two):
    """Rule 17.8."""
    text = "- func: f(Tensor self) -> Tensor\n  dispatch: {CPU: f}\n  autogen: f.other\n"

    with pytest.raises(CodegenError, match=r"^native\.yaml:1:3: 'autogen' of f asks for f\.other"):
        read_two(text)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (
            "f(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None,"
            " bool? pin_memory=None, int n=1) -> Tensor",
            "f.out(Tensor self, *, int n=1, Tensor(a!) out) -> Tensor(a!)",
        ),
        (
            "f.x(Tensor self) -> (Tensor, Tensor)",
            "f.x_out(Tensor self, *, Tensor(a!) out0, Tensor(b!) out1) -> (Tensor(a!), Tensor(b!))",
        ),
        ("f(Tensor[] self) -> Tensor[]", "f.out(Tensor[] self, *, Tensor(a!)[] out) -> ()"),
        (
            "f_(Tensor(a!)[] self, int n) -> ()",
            "f.out(Tensor[] self, int n, *, Tensor(a!)[] out) -> ()",
        ),
    ],
)
def test_out_schema_of_functional_function(schema, expected):
    """Rule 17.8."""
    made = out_schema(parse_schema(schema))

    assert str(made) == expected
    assert parse_schema(str(made)) == made


def test_functional_schema_of_an_out_function_returns_what_was_written():
    """Rule 17.8."""
    schema = parse_schema("f.x(Tensor self, *, Tensor(a!) out) -> Tensor(a!)")

    assert str(functional_schema(schema)) == "f.x(Tensor self) -> Tensor"


def test_a_family_has_all_functions_of_a_signature(worked):
    by_signature = families(fn.func for fn in worked.values())
    kinds = by_signature[worked["mul.Tensor"].func.func.signature()]

    assert [kind.name for kind in kinds] == ["functional", "inplace", "out"]


def test_a_view_group_has_the_copying_twin(worked):
    [group] = view_groups(fn.func for fn in worked.values())

    assert str(group.view.func.name) == "transpose.int"
    assert group.view_copy is not None
    assert str(group.view_copy.func.name) == "transpose_copy.int"
    assert group.view_inplace is None
