from __future__ import annotations

from collections.abc import Callable

import pytest

from pullback.schema import parse_schema

Refuses = Callable[..., None]


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        ("int", "-1", -1),
        ("int?", "None", None),
        ("Tensor", "None", None),
        ("int", "Mean", "Mean"),
        ("bool", "True", True),
        ("float", "1e-05", 1e-05),
        ("float", "2", 2),
        ("Scalar", "0.5", 0.5),
        ("ScalarType?", "long", "long"),
        ("MemoryFormat", "contiguous_format", "contiguous_format"),
        ("str", "'fro'", "fro"),
        ("str", '""', ""),
        ("str", '"\\"\\\'\\\\\\n"', "\"'\\\n"),
        ("int[]", "[]", []),
        ("int[]", "[0,1]", [0, 1]),
        ("bool[2]", "[True,False]", [True, False]),
        ("int[2]", "1", 1),
        ("Device", "'cpu'", "cpu"),
    ],
)
def test_default_values(type_: str, text: str, value: object) -> None:
    (argument,) = parse_schema(f"f({type_} x={text}) -> ()").arguments.flat_all
    assert argument.default == text
    assert argument.default_value() == value
    assert type(argument.default_value()) is type(value)


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        ("int", "0.5"),
        ("int", "None"),
        ("int", "mean"),
        ("SymInt[2]", "Max"),
        ("int[]", "None"),
        ("Generator", "None"),
        ("int", "'a'"),
        ("int", "True"),
        ("int", "[1]"),
        ("int[]", "1"),
        ("int?[2]", "1"),
        ("int[2][3]", "1"),
        ("str[2]", "'a'"),
        ("int[]", "[0.5]"),
        ("float", "inf"),
        ("float", "True"),
        ("bool", "1"),
        ("str", "abc"),
        ("str", "3"),
        ("Tensor", "0"),
        ("Generator?", "a"),
        ("DeviceIndex", "cpu"),
        ("Device", "cpu"),
        ("__torch__.torch.classes.a.B", "1"),
    ],
)
def test_default_must_fit_its_type(type_: str, text: str, assert_refused: Refuses) -> None:
    assert_refused(f"f({type_} x=§{text}) -> ()", f"the default {text} is no value of type {type_}")


@pytest.mark.parametrize("number", [str(2**63), "-" + "9" * 30])
def test_default_must_fit_in_64_bits(number: str, assert_refused: Refuses) -> None:
    assert_refused(f"f(int x=§{number}) -> ()", "does not fit in 64 bits")
    assert parse_schema(f"f(int x={2**63 - 1}) -> ()")
