from __future__ import annotations

import dataclasses

import pytest

from pullback.schema import (
    BaseTy,
    BaseType,
    CustomClassType,
    ListType,
    OptionalType,
    Type,
    parse_schema,
)

TENSOR = BaseType(BaseTy.Tensor)
INT = BaseType(BaseTy.int)


def type_of(text: str) -> Type:
    return parse_schema(f"f({text} x) -> ()").arguments.flat_all[0].type


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Tensor", TENSOR),
        ("Tensor?", OptionalType(TENSOR)),
        ("Tensor[]", ListType(TENSOR, None)),
        ("Tensor?[]", ListType(OptionalType(TENSOR), None)),
        ("int[1]?", OptionalType(ListType(INT, 1))),
        ("int[2]", ListType(INT, 2)),
        ("dtype", BaseType(BaseTy.dtype)),
        ("ScalarType", BaseType(BaseTy.ScalarType)),
        ("__torch__.torch.classes.rnn.Cell", CustomClassType("rnn.Cell")),
    ],
)
def test_suffixes_bind_outwards(text: str, expected: Type) -> None:
    """Rule 17.1."""
    assert type_of(text) == expected
    assert str(expected) == text


@pytest.mark.parametrize("base", [base.value for base in BaseTy if base is not BaseTy.complex])
def test_every_base_type_parses_and_prints_as_written(base: str) -> None:
    assert str(type_of(base)) == base


@pytest.mark.parametrize(
    ("text", "tensor", "nullable", "is_list"),
    [
        ("Tensor", True, False, False),
        ("Tensor?", True, True, False),
        ("Tensor[]", True, False, True),
        ("Tensor?[]", True, True, True),
        ("int", False, False, False),
        ("int[2]?", False, True, True),
        ("__torch__.torch.classes.rnn.Cell", False, False, False),
    ],
)
def test_queries(text: str, tensor: bool, nullable: bool, is_list: bool) -> None:
    type_ = type_of(text)
    assert type_.is_tensor_like() is tensor
    assert type_.is_nullable() is nullable
    assert (type_.is_list_like() is not None) is is_list


def test_list_below_an_optional_is_found() -> None:
    assert type_of("int[2]?").is_list_like() == ListType(INT, 2)


def test_queries_for_one_base_type_look_below_suffixes() -> None:
    assert type_of("SymInt[]?").is_symint_like()
    assert not type_of("int[]?").is_symint_like()
    assert type_of("Generator?").is_generator_like()
    assert type_of("int[]?").is_base_ty_like(BaseTy.int)


def test_types_are_frozen_and_hashable() -> None:
    assert len({type_of("int[2]"), type_of("int[2]"), type_of("int[3]")}) == 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        INT.name = BaseTy.float  # type: ignore[misc]
