from __future__ import annotations

import dataclasses

import pytest

from pullback.errors import SchemaError
from pullback.schema import SchemaKind, parse_schema

# 17.2: kinds


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("f(Tensor self) -> Tensor", SchemaKind.functional),
        ("f(Tensor(a!) self) -> Tensor(a!)", SchemaKind.functional),
        ("f_(Tensor(a!) self) -> Tensor(a!)", SchemaKind.inplace),
        ("f_(Tensor(a!) self, Tensor(b!) x) -> Tensor(a!)", SchemaKind.inplace),
        ("__iadd__(Tensor(a!) self) -> Tensor(a!)", SchemaKind.inplace),
        ("f(Tensor x, *, Tensor(a!) out) -> Tensor(a!)", SchemaKind.out),
        ("f(Tensor(b!) x, *, Tensor(a!) out) -> Tensor(a!)", SchemaKind.out),
        (
            "f(Tensor x, *, Tensor(a!) out, Tensor(b!) _scratch_x) -> Tensor(a!)",
            SchemaKind.scratch,
        ),
        ("f(Tensor self, Tensor(a!) x) -> ()", SchemaKind.mutable),
        ("f(Tensor(a!) x) -> ()", SchemaKind.mutable),
    ],
)
def test_kind_follows_name_and_annotations(text: str, kind: SchemaKind) -> None:
    """Rule 17.2."""
    assert parse_schema(text).kind() is kind


def test_written_self_is_mutable_though_its_kind_is_functional() -> None:
    """Rule 17.2."""
    assert parse_schema("f(Tensor(a!) self) -> Tensor(a!)").is_mutable
    assert not parse_schema("f(Tensor(a) self) -> Tensor(a)").is_mutable


# 17.4: signatures


@pytest.mark.parametrize(
    "text",
    [
        "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
        "add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)",
        "add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)",
        "add_functional(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor result",
    ],
)
def test_variants_share_a_signature(text: str) -> None:
    """Rule 17.4."""
    expected = "add(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
    assert str(parse_schema(text).signature()) == expected
    assert str(parse_schema(text).signature(strip_default=True)) == expected.replace("=1", "")


@pytest.mark.parametrize(
    ("text", "signature"),
    [
        (
            "f(Tensor x, Tensor(a!) y, *, Tensor(b!) out) -> Tensor(b!)",
            "f(Tensor x, Tensor y) -> (Tensor, Tensor)",
        ),
        (
            "f_(Tensor(a!)[] self, Tensor(b!)[] y) -> ()",
            "f(Tensor[] self, Tensor[] y) -> (Tensor[], Tensor[])",
        ),
        (
            "f(int n, *, int k, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
            "bool? pin_memory=None, int m) -> Tensor(a)",
            "f(int n, *, int k, int m) -> Tensor",
        ),
        ("__ior__(Tensor(a!) self) -> Tensor(a!)", "__or__(Tensor self) -> Tensor"),
        ("ns::f.x(Tensor self) -> Tensor", "ns::f(Tensor self) -> Tensor"),
    ],
)
def test_written_arguments_become_returns_and_options_go(text: str, signature: str) -> None:
    """Rule 17.4."""
    assert str(parse_schema(text).signature()) == signature


def test_return_names_can_be_kept() -> None:
    """Rule 17.4."""
    schema = parse_schema("f(Tensor x, Tensor(a!) y) -> (Tensor u, Tensor)")
    kept = schema.signature(keep_return_names=True)
    assert str(kept) == "f(Tensor x, Tensor y) -> (Tensor u, Tensor, Tensor y_out)"


@pytest.mark.parametrize(
    ("name", "view"),
    [
        ("expand_copy", "expand"),
        ("slice_scatter", "slice_inverse"),
        ("clone", "clone"),
    ],
)
def test_signature_can_keep_name_of_view(name: str, view: str) -> None:
    """Rule 17.4."""
    schema = parse_schema(f"{name}(Tensor self) -> Tensor")
    assert schema.signature(strip_view_copy_name=True).name.name.base == view
    assert schema.signature().name.name.base == name


@pytest.mark.parametrize(
    "options",
    [
        "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None",
        "dtype dtype, Layout layout, device device, bool pin_memory",
    ],
)
def test_tensor_options_are_grouped(options: str) -> None:
    grouped = parse_schema(f"f(*, int a, {options}, int b) -> Tensor").arguments
    assert grouped.tensor_options is not None
    names = [argument.name for argument in grouped.tensor_options.all()]
    assert names == ["dtype", "layout", "device", "pin_memory"]
    assert [a.name for a in grouped.pre_tensor_options_kwarg_only] == ["a"]
    assert [a.name for a in grouped.post_tensor_options_kwarg_only] == ["b"]


@pytest.mark.parametrize(
    "text",
    [
        "f(*, ScalarType? dtype=None, Layout? layout=None, Device? device=None) -> Tensor",
        "f(*, ScalarType dtype, int i, Layout layout, Device device, bool pin_memory) -> Tensor",
        "f(*, int dtype, Layout layout, Device device, bool pin_memory) -> Tensor",
        "f(ScalarType dtype, Layout layout, Device device, bool pin_memory) -> Tensor",
    ],
)
def test_other_arguments_are_no_tensor_options(text: str) -> None:
    assert parse_schema(text).arguments.tensor_options is None


# 17.5 and other queries


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("f_(Tensor(a!) self) -> Tensor(a!)", ("self",)),
        ("f(*, Tensor(a!) x, Tensor(b!) y) -> (Tensor(a!) u, Tensor(b!) v)", ("x", "y")),
        ("f(Tensor x) -> Tensor", ("result",)),
        ("f(Tensor x) -> (Tensor, Tensor)", ("result0", "result1")),
        ("f(Tensor x) -> (Tensor values, Tensor)", ("values", "result1")),
        ("f(Tensor x) -> Tensor x", ("x_return",)),
        ("f(Tensor x) -> ()", ()),
    ],
)
def test_names_of_returns(text: str, names: tuple[str, ...]) -> None:
    """Rule 17.5."""
    assert parse_schema(text).return_names() == names


def test_loose_return_is_never_named_after_an_argument_it_is_not() -> None:
    """Rule 17.5."""
    inplace = parse_schema("f_(Tensor(a!) self) -> (Tensor(a!), Tensor)", dialect="loose")
    out = parse_schema("f(*, Tensor(a!) out) -> Tensor", dialect="loose")
    assert inplace.return_names() == ("self", "result1")
    assert out.return_names() == ("result",)


def test_dispatch_arguments_are_tensors_and_lists_of_them() -> None:
    """Rule 14.10."""
    schema = parse_schema(
        "f(Tensor a, Tensor? b, Tensor[] c, Tensor?[] d, Tensor[]? e, int i, Generator? g, *, "
        "Tensor k, Tensor(a!) out) -> Tensor(a!)"
    )
    assert schema.dispatch_arguments == ("a", "b", "c", "d", "k", "out")


@pytest.mark.parametrize(
    ("text", "view"),
    [
        ("f(Tensor(a) self) -> Tensor(a)", True),
        ("f(Tensor(a -> *) self) -> Tensor[]", True),
        ("f(Tensor(a!) self) -> Tensor(a!)", False),
        ("f(Tensor self) -> Tensor", False),
    ],
)
def test_is_view(text: str, view: bool) -> None:
    assert parse_schema(text).is_view is view


def test_aliased_return_names() -> None:
    schema = parse_schema("f(Tensor(a) x, Tensor(b) y) -> (Tensor(b), Tensor)")
    assert schema.aliased_return_names() == ("y", None)


def test_return_that_aliases_two_arguments_has_no_one_name() -> None:
    schema = parse_schema("f(Tensor(a) x, Tensor(a) y) -> Tensor(a)")
    with pytest.raises(SchemaError, match=r"aliases several arguments \(x, y\)"):
        schema.aliased_return_names()


def test_functional_and_out_overloads() -> None:
    assert parse_schema("f.functional(Tensor x) -> Tensor").is_functional_fn()
    out = parse_schema("f(*, Tensor(a!) out) -> Tensor(a!)")
    assert out.is_out_fn()
    assert not out.is_functional_fn()


def test_schemas_are_frozen_and_hashable() -> None:
    text = "f(Tensor(a) x, int[2] y=[1,2]) -> Tensor(a)"
    assert len({parse_schema(text), parse_schema(text)}) == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        parse_schema(text).returns = ()  # type: ignore[misc]
