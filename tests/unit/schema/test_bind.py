from __future__ import annotations

import enum
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from pullback.errors import BindError, message_of
from pullback.schema import Binder, is_tensor, parse_schema


class FakeTensor:
    _flags = 0


class Five:
    def __index__(self) -> int:
        return 5


class Stubborn:
    def __index__(self) -> int:
        raise RuntimeError("more than one element")


class Level(enum.IntEnum):
    HIGH = 2


T = FakeTensor()
DECLARATION = "ns::f(int a, Tensor? t=None, *, float scale, int[2] size=1) -> ()"


@pytest.fixture
def binder() -> Binder:
    return Binder(parse_schema(DECLARATION))


def check(type_: str, value: object) -> Any:
    return Binder(parse_schema(f"f({type_} x) -> ()", dialect="loose")).check("x", value)


# 14.35 and 14.37: order, keywords, defaults


@pytest.mark.parametrize(
    ("args", "kwargs", "positional", "keyword_only"),
    [
        ((1,), {"scale": 2}, [1, None], {"scale": 2.0, "size": [1, 1]}),
        ((1, T), {"scale": 2, "size": (3, 4)}, [1, T], {"scale": 2.0, "size": [3, 4]}),
        ((), {"t": T, "scale": 0.5, "a": 7}, [7, T], {"scale": 0.5, "size": [1, 1]}),
        ((1,), {"size": 5, "t": None, "scale": 1}, [1, None], {"scale": 1.0, "size": [5, 5]}),
    ],
)
def test_keywords_become_positional_and_defaults_are_filled(
    binder: Binder,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    positional: list[Any],
    keyword_only: dict[str, Any],
) -> None:
    """Rule 14.37."""
    assert binder.bind(args, kwargs) == (positional, keyword_only)


def test_keyword_only_values_come_in_the_order_of_the_schema(binder: Binder) -> None:
    _, keyword_only = binder.bind((1,), {"size": 2, "scale": 1})
    assert list(keyword_only) == ["scale", "size"]


def test_outputs_are_keyword_only() -> None:
    binder = Binder(parse_schema("f(Tensor x, *, Tensor(a!) out) -> Tensor(a!)"))
    other = FakeTensor()
    assert binder.bind((T,), {"out": other}) == ([T], {"out": other})
    with pytest.raises(BindError, match="missing value for argument 'out'"):
        binder.bind((T,), {})


def test_default_lists_are_fresh_for_every_call() -> None:
    binder = Binder(parse_schema("f(int[] dims=[0,1]) -> ()"))
    (first,), _ = binder.bind((), {})
    first.append(2)
    assert binder.bind((), {}) == ([[0, 1]], {})


def test_names_of_enumerations_stay_text() -> None:
    binder = Binder(parse_schema("f(ScalarType? d=long, str s='a') -> ()"))
    assert binder.bind((), {}) == (["long", "a"], {})


def test_names_of_reductions_are_numbers() -> None:
    binder = Binder(parse_schema("f(int r=Mean, SymInt? s=Sum, int[2] t=Mean) -> ()"))
    assert binder.bind((), {}) == ([1, 2, [1, 1]], {})


def test_none_may_be_given_where_it_is_the_default_of_a_tensor() -> None:
    binder = Binder(parse_schema("f(Tensor x, Tensor y=None) -> ()"))
    assert binder.bind((T,), {}) == binder.bind((T, None), {}) == ([T, None], {})
    assert binder.bind((T, T), {}) == ([T, T], {})
    with pytest.raises(BindError, match="for argument 'x' but instead found type 'NoneType'"):
        binder.bind((None,), {})


def test_defaults_are_converted_like_arguments() -> None:
    binder = Binder(parse_schema("f(float x=1, float[2] y=0, SymInt[1] z=[]) -> ()"))
    (x, y, z), _ = binder.bind((), {})
    assert (x, y, z) == (1.0, [0.0, 0.0], [])
    assert type(x) is type(y[0]) is float


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {"scale": 1}, "ns::f() is missing value for argument 'a'."),
        ((1,), {}, "ns::f() is missing value for argument 'scale'."),
        (
            (1, T, 3),
            {},
            "ns::f() expected at most 2 argument(s) but received 3 argument(s) by position; "
            "'scale', 'size' can only be given by keyword.",
        ),
        (
            ("x",),
            {"scale": 1},
            "ns::f() Expected a value of type 'int' for argument 'a' but instead found type 'str'.",
        ),
        (
            (),
            {"a": "x", "scale": 1},
            "ns::f() Expected a value of type 'int' for argument 'a' but instead found type 'str'.",
        ),
        (
            (1, 2),
            {"scale": 1},
            "ns::f() Expected a value of type 'Optional[Tensor]' for argument 't' "
            "but instead found type 'int'.",
        ),
        (
            (1,),
            {"scale": 1, "size": [1, "x"]},
            "ns::f() Expected a value of type 'List[int]' for argument 'size' "
            "but instead found type 'list' (element 1 is of type 'str').",
        ),
        (
            (1,),
            {"scala": 1},
            "ns::f() Unknown keyword argument 'scala'; did you mean 'scale'?",
        ),
        ((1,), {"scale": 1, "zzz": 2}, "ns::f() Unknown keyword argument 'zzz'."),
        (
            (1,),
            {"a": 2, "scale": 1},
            "ns::f() Argument 'a' specified both as positional and keyword argument.",
        ),
    ],
)
def test_wrong_calls_name_the_argument(
    binder: Binder, args: tuple[Any, ...], kwargs: Mapping[str, Any], message: str
) -> None:
    """Rule 14.35."""
    with pytest.raises(BindError) as caught:
        binder.bind(args, kwargs)
    assert message_of(caught.value) == f"{message}\nDeclaration: {DECLARATION}"


def test_too_many_without_keyword_only_arguments() -> None:
    """Rule 14.35."""
    binder = Binder(parse_schema("f(int a, int b) -> ()"))
    with pytest.raises(RuntimeError, match=r"expected at most 2 argument\(s\) but received 3"):
        binder.bind((1, 2, 3), {})


def test_check_refuses_an_unknown_name(binder: Binder) -> None:
    with pytest.raises(BindError, match="Unknown keyword argument 'sizes'; did you mean 'size'"):
        binder.check("sizes", 1)


# What each type accepts


def test_is_tensor_refuses_classes() -> None:
    by_instance = type("Plain", (), {})()
    assert not is_tensor(by_instance)
    by_instance._flags = 0
    assert is_tensor(T)
    assert is_tensor(by_instance)
    assert not is_tensor(type(T))


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        ("int", 3, 3),
        ("int", True, 1),
        ("int", Five(), 5),
        ("int", Level.HIGH, 2),
        ("int", np.int64(3), 3),
        ("int", np.bool_(True), 1),
        ("bool", np.bool_(True), True),
        ("Scalar", np.bool_(True), True),
        ("SymInt", np.int8(3), 3),
        ("DeviceIndex", 1, 1),
        ("float", 3, 3.0),
        ("float", True, 1.0),
        ("float", np.float32(2.5), 2.5),
        ("float", Fraction(1, 2), 0.5),
        ("float", Decimal("0.5"), 0.5),
        ("float", Five(), 5.0),
        ("complex", 2, 2 + 0j),
        ("complex", np.complex128(1j), 1j),
        ("bool", True, True),
        ("bool", np.bool_(False), False),
        ("bool", 3, True),
        ("SymBool", False, False),
        ("str", "a", "a"),
        ("Scalar", 3, 3),
        ("Scalar", True, True),
        ("Scalar", 1j, 1j),
        ("Scalar", np.float64(0.5), np.float64(0.5)),
        ("int[]", (1, True), [1, 1]),
        ("int[]", range(2), [0, 1]),
        ("int[2]", [1, 2, 3], [1, 2, 3]),
        ("int[2]", 3, [3, 3]),
        ("SymInt[3]", 0, [0, 0, 0]),
        ("float[2]", 1, [1.0, 1.0]),
        ("bool[2]", True, [True, True]),
        ("int[2]?", 3, [3, 3]),
        ("int[]?", None, None),
        ("str[]", ["a"], ["a"]),
        ("Tensor", T, T),
        ("Tensor?", None, None),
        ("Tensor[]", (T, T), [T, T]),
        ("Tensor?[]", [T, None], [T, None]),
        ("ScalarType", "anything", "anything"),
        ("device", "cpu", "cpu"),
        ("Generator?", 7, 7),
        ("__torch__.torch.classes.a.B", 7, 7),
    ],
)
def test_accepts(type_: str, value: object, expected: object) -> None:
    converted = check(type_, value)
    assert converted == expected
    assert type(converted) is type(expected)


@pytest.mark.parametrize(
    ("type_", "value", "shown"),
    [
        ("int", 2.5, "int"),
        ("int", "3", "int"),
        ("int", None, "int"),
        ("int", [1], "int"),
        ("int", Fraction(4, 2), "int"),
        ("SymInt", 2.5, "int"),
        ("float", "2.5", "float"),
        ("float", 1j, "float"),
        ("float", np.complex128(1j), "float"),
        ("float", None, "float"),
        ("float", 10**400, "float"),
        ("float", b"2.5", "float"),
        ("float", np.array([1.0, 2.0]), "float"),
        ("int", Stubborn(), "int"),
        ("complex", "1j", "complex"),
        ("complex", None, "complex"),
        ("bool", None, "bool"),
        ("bool", "True", "bool"),
        ("bool", [True], "bool"),
        ("bool", np.array([True, False]), "bool"),
        ("str", 3, "str"),
        ("str", b"a", "str"),
        ("Scalar", "3", "number"),
        ("Scalar", T, "number"),
        ("int[]", 3, "List[int]"),
        ("int[]", "12", "List[int]"),
        ("int[]", [1.5], "List[int]"),
        ("int[2]", 1.5, "List[int]"),
        ("Scalar[]", ["a"], "List[number]"),
        ("Tensor", None, "Tensor"),
        ("Tensor", 1.0, "Tensor"),
        ("Tensor?", 1.0, "Optional[Tensor]"),
        ("Tensor[]", [T, None], "List[Tensor]"),
        ("Tensor[2]", T, "List[Tensor]"),
        ("Tensor?[]", [1], "List[Optional[Tensor]]"),
        ("int[]?", "a", "Optional[List[int]]"),
    ],
)
def test_refuses_and_prints_the_expected_type(type_: str, value: object, shown: str) -> None:
    """Rule 14.35."""
    with pytest.raises(BindError) as caught:
        check(type_, value)
    assert (
        f"Expected a value of type '{shown}' for argument 'x' but instead found type "
        f"'{type(value).__name__}'" in str(caught.value)
    )
