"""Schemas from type hints, compared live with torch where it is installed."""

from __future__ import annotations

import collections.abc
import typing

import numpy as np
import pytest

import pullback as pb

Number = int | float | bool

try:
    import torch
except ImportError:
    torch = None

oracle = pytest.mark.oracle


def function(parameters: str, returns: str, lib):
    """A function with these hints, which name the types of one of the two libraries."""
    names = {
        "T": lib.Tensor,
        "Number": Number if lib is pb else torch.types.Number,
        "dtype": np.dtype if lib is pb else torch.dtype,
        "f32": np.dtype("float32") if lib is pb else torch.float32,
        "typing": typing,
        "abc": collections.abc,
        **{
            n: getattr(typing, n) for n in ("Any", "List", "Optional", "Sequence", "Tuple", "Union")
        },
    }
    source = f"def f({parameters}){f' -> {returns}' if returns else ''}: ...\n"
    exec(compile(source, "<hints>", "exec", dont_inherit=True), names)
    return names["f"]


GOOD = [
    ("x: T", "T", (), "(Tensor x) -> Tensor"),
    ("x: T, n: int, s: float, b: bool, t: str", "T", (), None),
    ("x: Number", "T", (), "(Scalar x) -> Tensor"),
    ("x: T, d: dtype", "T", (), "(Tensor x, ScalarType d) -> Tensor"),
    ("x: Optional[T], n: Optional[int]", "T", (), "(Tensor? x, SymInt? n) -> Tensor"),
    ("x: T | None, n: float | None = None", "T", (), "(Tensor? x, float? n=None) -> Tensor"),
    ("x: List[T], n: list[int]", "T", (), "(Tensor[] x, SymInt[] n) -> Tensor"),
    ("x: Sequence[T], n: abc.Sequence[float]", "T", (), "(Tensor[] x, float[] n) -> Tensor"),
    ("x: List[Optional[T]]", "T", (), "(Tensor?[] x) -> Tensor"),
    ("x: Optional[List[int]] = None", "T", (), "(SymInt[]? x=None) -> Tensor"),
    ("x: 'T', n: 'int'", "T", (), "(Tensor x, SymInt n) -> Tensor"),
    (
        "x: T, *, n: int = 3, s: str = 'a'",
        "T",
        (),
        '(Tensor x, *, SymInt n=3, str s="a") -> Tensor',
    ),
    ("x: T, d: dtype = f32, b: bool = True", "T", (), None),
    ("x: T", "None", ("x",), "(Tensor(a0!) x) -> ()"),
    ("n: int, x: List[T], y: Optional[T]", "None", ("x", "y"), None),
    ("x: T, n: int, y: T", "None", "unknown", "(Tensor(a0!) x, SymInt n, Tensor(a2!) y) -> ()"),
    ("x: T", "List[T]", (), "(Tensor x) -> Tensor[]"),
    ("x: T", "Tuple[T, int, float, bool]", (), "(Tensor x) -> (Tensor, SymInt, float, bool)"),
    ("x: T", "Tuple[T]", (), "(Tensor x) -> ((Tensor))"),
    ("x: T", "Number", (), "(Tensor x) -> Scalar"),
]

BAD = [
    ("x: dict", "T", (), "unsupported type"),
    ("x: complex", "T", (), "unsupported type"),
    ("x: Any", "T", (), "unsupported type"),
    ("x: Union[int, str]", "T", (), "unsupported type"),
    ("x: List[List[int]]", "T", (), "unsupported type"),
    ("x: List[str]", "T", (), "unsupported type"),
    ("x: Optional[List[T]]", "T", (), "unsupported type"),
    ("x: List[Optional[int]]", "T", (), "unsupported type"),
    ("x: Tuple[int, int]", "T", (), "use List instead"),
    ("x", "T", (), "type annotation"),
    ("x: T, /", "T", (), "positional-only|kwargs"),
    ("*x: T", "T", (), "args|varargs"),
    ("**x: T", "T", (), "kwargs|varargs"),
    ("x: List[int] = [1]", "T", (), "unsupported default value type"),
    ("x: T", "Sequence[T]", (), "unsupported type"),
    ("x: T", "Optional[T]", (), "unsupported type"),
    ("x: T", "str", (), "unsupported type"),
    ("x: T", "List[int]", (), "unsupported type"),
    ("x: T", "Tuple[Tuple[T], T]", (), "unsupported type"),
    ("x: T", "Tuple[T, ...]", (), "unsupported type"),
    ("x: T", "", (), "return"),
    ("n: int", "None", ("n",), "only Tensors or collections of Tensors can be mutated"),
    ("x: T", "None", ("y",), "were not found"),
    ("x: T", "None", "x", "unknown|iterable"),
]


@pytest.mark.parametrize(("parameters", "returns", "mutates", "expected"), GOOD)
def test_schema_is_inferred_from_hints(parameters, returns, mutates, expected):
    """Rules 15.28, 15.29, 15.30, 15.31."""
    found = pb.library.infer_schema(function(parameters, returns, pb), mutates_args=mutates)
    assert expected is None or found == expected
    named = pb.library.infer_schema(
        function(parameters, returns, pb), mutates_args=mutates, op_name="g"
    )
    assert named == "g" + found


@oracle
@pytest.mark.skipif(torch is None, reason="needs torch")
@pytest.mark.parametrize(("parameters", "returns", "mutates", "expected"), GOOD)
def test_inferred_as_torch_does(parameters, returns, mutates, expected):
    """Rule 15.28."""
    mine = pb.library.infer_schema(function(parameters, returns, pb), mutates_args=mutates)
    theirs = torch.library.infer_schema(function(parameters, returns, torch), mutates_args=mutates)
    assert mine == theirs


@pytest.mark.parametrize(("parameters", "returns", "mutates", "words"), BAD)
def test_unsupported_hints_are_refused(parameters, returns, mutates, words):
    """Rules 15.28, 15.29, 15.30, 15.31."""
    with pytest.raises(ValueError, match=words):
        pb.library.infer_schema(function(parameters, returns, pb), mutates_args=mutates)


@oracle
@pytest.mark.skipif(torch is None, reason="needs torch")
@pytest.mark.parametrize(("parameters", "returns", "mutates", "words"), BAD)
def test_refused_as_torch_does(parameters, returns, mutates, words):
    """Rule 15.28."""
    with pytest.raises(ValueError, match=r"infer_schema|mutates_args"):
        torch.library.infer_schema(function(parameters, returns, torch), mutates_args=mutates)


def test_text_hints_of_local_names():
    """Rule 15.28."""
    alias = pb.Tensor

    def f(x: alias) -> alias:
        return x if alias else None

    f.__annotations__ = {"x": "alias", "return": "alias"}
    assert pb.library.infer_schema(f, mutates_args=()) == "(Tensor x) -> Tensor"


def test_a_hint_that_cannot_be_evaluated_is_named():
    """Rule 15.28."""

    def f(x) -> pb.Tensor: ...

    f.__annotations__["x"] = "Tensr"
    with pytest.raises(ValueError, match=r"'Tensr' of 'x'"):
        pb.library.infer_schema(f, mutates_args=())
