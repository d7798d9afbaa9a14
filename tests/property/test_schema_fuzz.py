"""Whatever the text, the parser reads it without loss or raises ``SchemaError``."""

from __future__ import annotations

import random
import string
from collections.abc import Callable
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pullback.errors import SchemaError, message_of
from pullback.schema import BaseTy, Binder, FunctionSchema, parse_schema

SEEDS = [
    "f() -> ()",
    "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    "ns::add_(Tensor(a!) self, Tensor[] other) -> Tensor(a!)",
    "sum.out(Tensor self, int[1]? dim, bool keepdim=False, *, Tensor(a!) out) -> Tensor(a!)",
    "split(Tensor(a -> *) self, SymInt[] sizes, int dim=0) -> Tensor(a)[]",
    "norm(Tensor x, str p='fro', float eps=1e-05, int[2] d=[0,1]) -> (Tensor v, Tensor? w)",
    "empty(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
    "bool? pin_memory=None) -> Tensor",
    "rnn(__torch__.torch.classes.rnn.Cell cell, Tensor?[] xs) -> Tensor",
    "__ior__.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)",
]
TOKENS = [
    *(base.value for base in BaseTy),
    *("f", "self", "out", "x", "y", "a", "b", "_", "None", "True", "Mean", "Dict", "...", "-"),
    *("(", ")", "[", "]", "?", "!", "|", "*", ",", ", ", "=", "->", " -> ", "::", ".", " ", "  "),
    *("0", "-1", "2", "1.5", "1e9", "[0,1]", "'s'", '"', "\\", "(a!)", "(a)", "[2]", "[]", "\n"),
    *("() -> ()", "(Tensor x) -> ", "Tensor ", "int x", "f(", ") -> Tensor", "_functional"),
]
ALPHABET = string.printable + "éßΩ中\u2028\u0663\ud800\U0001f600\x00\x85\xa0"


def random_unicode(rng: random.Random) -> str:
    return "".join(rng.choices(ALPHABET, k=rng.randrange(30)))


def random_tokens(rng: random.Random) -> str:
    parts = ["".join(rng.choices(TOKENS, k=rng.randrange(4))) for _ in range(3)]
    return "{}f({}) -> {}".format(*parts)


def random_mutation(rng: random.Random) -> str:
    text = rng.choice(SEEDS)
    for _ in range(rng.randrange(1, 4)):
        start = rng.randrange(len(text) + 1)
        end = min(len(text), start + rng.choice((0, 0, 1, 1, 2, 8)))
        new = rng.choice(("", rng.choice(TOKENS), rng.choice(ALPHABET), text[start:end] * 2))
        text = text[:start] + new + text[end:]
    return text


def outcome(text: str, dialect: Literal["strict", "loose"]) -> FunctionSchema | str:
    """The schema, or the message with which the text is refused."""
    try:
        return parse_schema(text, dialect=dialect)
    except SchemaError as error:
        return message_of(error)


@pytest.mark.parametrize(
    ("make", "count", "least_readable"),
    [(random_unicode, 30_000, 0), (random_tokens, 40_000, 200), (random_mutation, 30_000, 3_000)],
)
def test_random_text_is_read_or_refused(
    make: Callable[[random.Random], str], count: int, least_readable: int
) -> None:
    rng = random.Random(make.__name__)
    readable = 0
    for _ in range(count):
        text = make(rng)
        strict, loose = outcome(text, "strict"), outcome(text, "loose")
        if isinstance(strict, str):
            assert strict.endswith("^")
        else:
            assert str(strict) == text
            readable += 1
        if isinstance(loose, str):
            assert loose.endswith("^")
        else:
            assert outcome(str(loose), "loose") == loose
    assert readable >= least_readable


# Valid schemas, built from the grammar

names = st.builds(str.__add__, st.sampled_from("fgXY_"), st.text("abcZ019_", max_size=5))
suffixes = st.lists(st.sampled_from(["?", "[]", "[1]", "[13]"]), max_size=3).map("".join)
base_types = st.one_of(
    st.sampled_from([base.value for base in BaseTy if base is not BaseTy.complex]),
    names.map("__torch__.torch.classes.".__add__),
)
aliases = st.sampled_from("abcdxyz")
annotations = st.one_of(
    aliases,
    st.tuples(aliases, aliases).map("|".join),
    st.tuples(aliases, st.sampled_from(["*", "b", "c|d"])).map(" -> ".join),
)
plain_types = st.builds(str.__add__, base_types, suffixes)
annotated_types = st.builds("Tensor({}){}".format, annotations, st.sampled_from(["", "?", "[]"]))
types = st.one_of(plain_types, annotated_types)
defaults = st.one_of(
    st.tuples(st.just("int"), st.integers(-(2**63) + 1, 2**63 - 1).map(str)),
    st.tuples(st.just("float?"), st.floats(allow_nan=False, allow_infinity=False).map(repr)),
    st.tuples(st.sampled_from(["bool", "Scalar", "bool[2]"]), st.sampled_from(["True", "False"])),
    st.tuples(
        st.just("int[]"), st.lists(st.integers(-9, 9).map(str)).map(",".join).map("[{}]".format)
    ),
    st.tuples(st.just("str"), st.text("abc,.()[]* ->", max_size=5).map(repr)),
    st.tuples(types.filter(lambda text: text.endswith("?")) | st.just("Tensor"), st.just("None")),
    st.tuples(st.sampled_from(["int", "SymInt?", "int[2]"]), st.sampled_from(["Mean", "Sum"])),
)


@st.composite
def schemas(draw: st.DrawFn) -> str:
    """A functional schema: whatever is written to follows rules that the unit tests cover."""
    argument_names = draw(st.lists(names, max_size=6, unique=True))
    required = draw(st.integers(0, len(argument_names)))
    star = draw(st.integers(0, len(argument_names)))
    arguments = []
    for index, name in enumerate(argument_names):
        if index == star:
            arguments.append("*")
        if index < required:
            arguments.append(f"{draw(types)} {name}")
        else:
            type_, default = draw(defaults.filter(lambda default: ", " not in default[1]))
            arguments.append(f"{type_} {name}={default}")
    returns = draw(st.lists(st.builds(str.__add__, types, names.map(" ".__add__) | st.just(""))))
    base = draw(names.filter(lambda name: not name.endswith(("_", "_out"))))
    overload = draw(st.just("") | names.map(".".__add__))
    namespace = draw(st.just("") | names.map("{}::".format))
    returned = returns[0] if len(returns) == 1 else f"({', '.join(returns)})"
    return f"{namespace}{base}{overload}({', '.join(arguments)}) -> {returned}"


@settings(max_examples=200, deadline=None)
@given(schemas())
def test_every_schema_of_the_grammar_prints_back_to_the_letter(text: str) -> None:
    assert str(parse_schema(text)) == text


@settings(max_examples=100, deadline=None)
@given(schemas())
def test_every_default_of_the_grammar_can_be_bound(text: str) -> None:
    schema = parse_schema(text)
    binder = Binder(schema)
    for argument in schema.arguments.flat_all:
        if argument.default is not None:
            default = binder.defaults[argument.name]
            assert binder.check(argument.name, default) == default
