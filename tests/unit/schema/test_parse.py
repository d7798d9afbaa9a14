from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import pytest

from pullback.errors import SchemaError, message_of
from pullback.schema import Annotation, FunctionSchema, parse_schema

Refuses = Callable[..., None]
Dialect = Literal["strict", "loose"]


# Grammar and re-printing


def test_parts_of_a_schema() -> None:
    """Rule 17.1."""
    schema = parse_schema(
        "ns::add_.out(Tensor first, Tensor(a!) self, int n=1, *, Scalar? alpha=None, "
        "Tensor(b!) out) -> (Tensor(a!) x, Tensor(b!))",
        dialect="loose",
    )
    arguments = schema.arguments
    assert schema.name.namespace == "ns"
    assert (schema.name.name.base, schema.name.name.inplace) == ("add", True)
    assert schema.name.overload_name == "out"
    assert [a.name for a in arguments.pre_self_positional] == ["first"]
    assert arguments.self_arg is not None
    assert arguments.self_arg.annotation == Annotation(("a",), is_write=True, alias_set_after=())
    assert [a.name for a in arguments.post_self_positional] == ["n"]
    assert [a.name for a in arguments.flat_kwarg_only] == ["alpha"]
    assert [a.name for a in arguments.out] == ["out"]
    assert arguments.positional == arguments.flat_positional
    assert [a.name for a in arguments.flat_non_out] == ["first", "self", "n", "alpha"]
    assert [a.name for a in arguments.flat_all] == ["first", "self", "n", "alpha", "out"]
    assert arguments.mutable_arg_names() == ("self", "out")
    assert [r.name for r in schema.returns] == ["x", None]


@pytest.mark.parametrize(
    "text",
    [
        "f() -> ()",
        "ns::f.a.b_1(Tensor self) -> Tensor",
        "f.1(Tensor self) -> Tensor",
        "f(*, int x) -> (Tensor, int[] y)",
        "f(Tensor(a) self) -> Tensor(a)[]",
        "f(Tensor(a -> *) self) -> Tensor(a)[]",
        "f(Tensor(a! -> a|b) self) -> ()",
        "f(Tensor(a|b -> c) x, Tensor(d)? y, Tensor(e!)[] z) -> ()",
        "f(int[2] x=[0,1], int[1] y=0, float z=-1.5e-05, str s='a,b', bool t=True) -> ()",
        'f(ScalarType? dtype=long, int reduction=Mean, str s="\\"\'\\\\") -> ()',
        "f(dtype x, device y) -> ()",
        "__iand__.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)",
        "batch_norm_functional(Tensor input) -> Tensor",
        "_functional(Tensor x) -> Tensor",
    ],
)
def test_prints_back_to_the_letter(text: str) -> None:
    """Rule 17.1."""
    assert str(parse_schema(text)) == text


@pytest.mark.parametrize(
    ("marked", "message"),
    [
        ("f(Tensor x) -> §(Tensor)", "without parentheses"),
        ("f(Tensor x)§->Tensor", "expected one space before '->'"),
        ("f(Tensor x) ->§Tensor", "expected one space before a type"),
        ("f(Tensor x) -> § Tensor", "expected one space before a type"),
        ("f(Tensor x) -> Tensor§ ", "expected no white space before the end"),
        ("§ f(Tensor x) -> Tensor", "expected no white space before an operator name"),
        ("f§ (Tensor x) -> Tensor", "expected no white space before '('"),
        ("f(§ Tensor x) -> Tensor", "expected no white space before a type"),
        ("f(Tensor x§ ) -> Tensor", "expected no white space before ',' or ')'"),
        ("f(Tensor x,§Tensor y) -> Tensor", "expected one space before a type"),
        ("f(Tensor § x) -> Tensor", "expected one space before an argument name"),
        ("f(Tensor§\tx) -> Tensor", "expected one space before an argument name"),
        ("f(int x§ =1) -> Tensor", "expected no white space before '='"),
        ("f(int[] x=[0,§ 1]) -> Tensor", "expected no white space before a number"),
        ("f(int[§02] x) -> ()", "at least 1"),
        ("f(int[§0] x) -> ()", "at least 1"),
        ("f(int[§-1] x) -> ()", "at least 1"),
        ("f(int x, *§) -> ()", "expected a keyword-only argument after '*'"),
        ("f(Tensor(a!)?§[] x) -> ()", "at most one '?' or '[]'"),
        ("f(Tensor(a!)[§2] x) -> ()", "expected ']'"),
        ("f(int" + "[]" * 8 + "§[] x) -> ()", "nested too deeply"),
        ("f(Tensor[]§(a!) x) -> ()", "right after Tensor"),
        ("f(int§(a!) x) -> ()", "only Tensor can have an alias annotation"),
        ('f(str x="a§, b") -> ()', "a default cannot contain ', '"),
        ('f(str x="a§=b") -> ()', "a default cannot contain '='"),
    ],
)
def test_refuses_other_spellings(marked: str, message: str, assert_refused: Refuses) -> None:
    """Rule 17.1."""
    assert_refused(marked, message)


@pytest.mark.parametrize(
    ("marked", "message"),
    [
        ("§", "expected an operator name but found the end of the text"),
        ("f§", "expected '(' but found the end of the text"),
        ("f(§", "expected a type but found the end of the text"),
        ("f(int x§", "expected ',' or ')' but found the end of the text"),
        ("f(int x)§", "expected '->' but found the end of the text"),
        ("f(int x) ->§", "expected a type but found the end of the text"),
        ("§1f() -> ()", "expected an operator name but found '1'"),
        ("f§é() -> ()", "expected '(' but found 'é'"),
        ("f§-g() -> ()", "expected '(' but found '-'"),
        ("§::f() -> ()", "expected an operator name but found '::'"),
        ("a::b§::f() -> ()", "expected '(' but found '::'"),
        ("a§.b::f() -> ()", "a namespace cannot contain a dot"),
        ("f.§() -> ()", "expected an overload name after '.'"),
        ("§_() -> ()", "before the in-place mark '_'"),
        ("f(int§) -> ()", "expected an argument name but found ')'"),
        ("f(int x,§) -> ()", "expected a type but found ')'"),
        ("f(int x§ y) -> ()", "expected ',' or ')' but found 'y'"),
        ("f(int x§.y) -> ()", "an argument name cannot contain a dot"),
        ("f(int x=§) -> ()", "expected a default but found ')'"),
        ("f(int[] x=[1§ 2]) -> ()", "expected ',' or ']' but found '2'"),
        ("f(int[] x=[1,§]) -> ()", "expected a number but found ']'"),
        ("f(str x=§'a) -> ()", "a string without its end"),
        (r"f(str x=§'\d') -> ()", "an escape other than"),
        ("f() -> ()§;", "expected the end of the schema but found ';'"),
        ("f() -> ()§ x", "expected the end of the schema but found 'x'"),
        ("f() -> int x§ y", "expected the end of the schema but found 'y'"),
        ("f(Tensor(§) x) -> ()", "expected an alias name but found ')'"),
        ("f(Tensor(a§ b) x) -> ()", "expected ')' but found 'b'"),
        ("f(Tensor(a§0!) x) -> ()", "one lower-case letter"),
        ("f(Tensor(§A) x) -> ()", "one lower-case letter"),
        ("f(Tensor(§*) x) -> ()", "expected an alias name but found '*'"),
        ("f(Tensor§! x) -> ()", "right after Tensor"),
    ],
)
def test_syntax_errors_point_at_the_first_offending_character(
    marked: str, message: str, assert_refused: Refuses
) -> None:
    assert_refused(marked, message)


@pytest.mark.parametrize(
    ("marked", "message"),
    [
        ("f§_out(Tensr x", "cannot end in '_out'"),
        ("f(int x, int[§0", "at least 1"),
        ("f(§Tensr x, Tensr y) -> Tensr", "unrecognized type 'Tensr'"),
        ("relu_(§Tensor self) -> (Tensor, Tensor)", "must be written to"),
        ("f(Tensor(a!) x, *, Tensor(b!) out) -> (§Tensor(a!), Tensor)", "must"),
    ],
)
def test_of_several_faults_the_first_is_shown(
    marked: str, message: str, assert_refused: Refuses
) -> None:
    assert_refused(marked, message)


@pytest.mark.parametrize("given", [None, 3, b"f() -> ()", ["f() -> ()"]])
def test_only_a_str_is_a_schema(given: Any) -> None:
    with pytest.raises(SchemaError, match=f"expected a str, got {type(given).__name__}"):
        parse_schema(given)


def test_unknown_dialect_is_refused() -> None:
    with pytest.raises(SchemaError, match="choose 'strict' or 'loose'"):
        parse_schema("f() -> ()", dialect="lax")  # type: ignore[arg-type]


@pytest.mark.parametrize("exception", [RuntimeError, AssertionError])
def test_error_is_what_either_parser_of_pytorch_raises(exception: type[Exception]) -> None:
    with pytest.raises(exception, match="Invalid function schema"):
        parse_schema("f(")


@pytest.mark.parametrize("dialect", ["strict", "loose"])
@pytest.mark.parametrize(
    "text",
    [
        "f(Tensor" + "[]" * 50_000 + " x) -> ()",
        "f(" + "(" * 50_000,
        "f(int x=" + "[" * 50_000,
        "f(int x=" + "9" * 50_000 + ") -> ()",
        "f(int[" + "9" * 50_000 + "] x) -> ()",
        "f(" + "T" * 50_000 + " x) -> ()",
        "f" * 50_000,
        "f(Tensor(" + "a|" * 50_000,
    ],
)
def test_enormous_input_is_refused_with_a_short_message(text: str, dialect: Dialect) -> None:
    with pytest.raises(SchemaError) as caught:
        parse_schema(text, dialect=dialect)
    assert len(str(caught.value)) < 3000
    _, shown, caret = message_of(caught.value).split("\n")
    assert len(caret) <= len(shown) + 1


def test_long_text_is_cut_around_the_fault() -> None:
    text = "f(" + ", ".join(f"int x{i}" for i in range(500)) + ", Tensr y) -> ()"
    with pytest.raises(SchemaError) as caught:
        parse_schema(text)
    _, shown, caret = message_of(caught.value).split("\n")
    assert shown.strip().startswith("...")
    assert shown[caret.index("^") :].startswith("Tensr y")


def test_many_arguments_are_fine() -> None:
    text = "f(" + ", ".join(f"int x{i}" for i in range(5000)) + ") -> ()"
    assert str(parse_schema(text)) == text


# 17.6: the loose dialect


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("f(Tensor x)->Tensor", "f(Tensor x) -> Tensor"),
        ("\n f ( Tensor  x ) ->\n( Tensor )\t", "f(Tensor x) -> Tensor"),
        ("ns :: f(Tensor x) -> ( )", "ns::f(Tensor x) -> ()"),
        ("f(Tensor(a0!) x) -> Tensor(a0!)", "f(Tensor(a0!) x) -> Tensor(a0!)"),
        ("f(Tensor (A|b|c!->*) x) -> ()", "f(Tensor(A|b|c! -> *) x) -> ()"),
        ("f(Tensor(*) x) -> Tensor(*)", "f(Tensor(*) x) -> Tensor(*)"),
        ("f(Tensor(a!)?[] x) -> ()", "f(Tensor(a!)?[] x) -> ()"),
        ("f(complex x) -> complex", "f(complex x) -> complex"),
        ("f(*, int x, *, int y) -> ()", "f(*, int x, int y) -> ()"),
        ("f(int x, *) -> ()", "f(int x) -> ()"),
        ("f(*) -> ()", "f() -> ()"),
        ("f(int x = 1) -> ()", "f(int x=1) -> ()"),
        ("f(int[ 02 ] x=[1, 2]) -> ()", "f(int[2] x=[1,2]) -> ()"),
        ('f(str x="a, b=c") -> ()', 'f(str x="a, b=c") -> ()'),
        ("f_out(int x) -> ()", "f_out(int x) -> ()"),
        ("__ifoo__(Tensor x) -> Tensor", "__ifoo__(Tensor x) -> Tensor"),
        ("f_(Tensor x) -> Tensor", "f_(Tensor x) -> Tensor"),
        ("f(Tensor x) -> Tensor(a!)", "f(Tensor x) -> Tensor(a!)"),
        ("f(Tensor(a!) x) -> (Tensor(a!), Tensor)", "f(Tensor(a!) x) -> (Tensor(a!), Tensor)"),
        ("f(Tensor(a!) x, Tensor self) -> ()", "f(Tensor(a!) x, Tensor self) -> ()"),
        # Keyword-only arguments have no order, and the canonical one puts outputs last.
        ("f(*, Tensor(a!) out, int x) -> ()", "f(*, int x, Tensor(a!) out) -> ()"),
    ],
)
def test_loose_dialect_accepts(text: str, canonical: str) -> None:
    """Rule 17.6."""
    schema = parse_schema(text, dialect="loose")
    assert str(schema) == canonical
    assert parse_schema(canonical, dialect="loose") == schema


@pytest.mark.parametrize(
    ("marked", "message"),
    [
        ("f.a§.b(int x) -> ()", "an overload name cannot contain a dot"),
        ("f.§1(int x) -> ()", "an overload name cannot start with a digit"),
        ("f.§default(int x) -> ()", "not a legal overload name"),
        ("f.§__a(int x) -> ()", "not a legal overload name"),
        ("f(§Dict(int, Tensor) x) -> ()", "Dict types are not supported here; pass the keys"),
        ("f(§(int, Tensor) x) -> ()", "tuple types are not supported here; declare one argument"),
        ("f(int x) -> (§(Tensor, Tensor))", "tuple types are not supported here"),
        ("f(§...) -> ()", "'...' is not supported here; declare a list"),
        ("f(int x, §...) -> ()", "'...' is not supported here; declare a list"),
        ("f(int x) -> §...", "'...' is not supported here"),
        ("f(§Union(int, str) x) -> ()", "one overload per type"),
        ("f(int  x) -> \n §Tensr", "did you mean 'Tensor'?"),
        ("f(int x  §y) -> ()", "expected ',' or ')' but found 'y'"),
        ("f(int x) §", "expected '->' but found the end of the text"),
        ("f(§fi x) -> ()", "unrecognized type 'fi'"),
    ],
)
def test_loose_dialect_refuses(marked: str, message: str, assert_refused: Refuses) -> None:
    """Rule 17.6."""
    assert_refused(marked, message, "loose")


def test_both_dialects_give_equal_objects() -> None:
    text = "f.x(Tensor(a!) self, int[2] n=[1,2], *, str s='a') -> Tensor(a!)"
    strict: FunctionSchema = parse_schema(text)
    assert parse_schema(text.replace(" ->", "->"), dialect="loose") == strict


@pytest.mark.parametrize("dialect", ["strict", "loose"])
def test_a_schema_that_prints_back_as_another_is_refused(
    monkeypatch: pytest.MonkeyPatch, dialect: Dialect
) -> None:
    monkeypatch.setattr(FunctionSchema, "__str__", lambda _: "g() -> ()")
    with pytest.raises(SchemaError, match="prints back as"):
        parse_schema("f() -> ()", dialect=dialect)
