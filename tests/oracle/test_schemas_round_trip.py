"""Every schema of PyTorch 2.13's operator table, with the generated ones, through both dialects."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace

import pytest

from pullback.errors import SchemaError
from pullback.schema import FunctionSchema, parse_schema

TABLE: list[tuple[str, str]] = [
    (text, kind)
    for text, kind in json.loads(Path(__file__).with_name("torchgen_schemas.json").read_text())
]
TEXTS = [text for text, _ in TABLE]


@pytest.fixture(scope="module")
def schemas() -> list[FunctionSchema]:
    return [parse_schema(text) for text in TEXTS]


def test_table_is_complete() -> None:
    assert len(TABLE) == len(set(TEXTS)) == 3101


def test_every_schema_prints_back_to_the_letter(schemas: list[FunctionSchema]) -> None:
    """Rule 17.1."""
    assert [str(schema) for schema in schemas] == TEXTS


def test_every_schema_has_the_right_kind(schemas: list[FunctionSchema]) -> None:
    """Rule 17.2."""
    assert [schema.kind().value for schema in schemas] == [kind for _, kind in TABLE]


def test_number_of_schemas_per_kind(schemas: list[FunctionSchema]) -> None:
    """Rule 17.2."""
    assert Counter(schema.kind().value for schema in schemas) == {
        "functional": 1647,
        "out": 1107,
        "inplace": 337,
        "mutable": 10,
    }


def test_loose_dialect_reads_the_same_unless_an_overload_has_dots(
    schemas: list[FunctionSchema],
) -> None:
    """Rule 17.6."""
    for text, strict in zip(TEXTS, schemas, strict=True):
        if "." in strict.name.overload_name:
            with pytest.raises(SchemaError, match="dot"):
                parse_schema(text, dialect="loose")
        else:
            assert parse_schema(text, dialect="loose") == strict


def test_loose_dialect_ignores_white_space(schemas: list[FunctionSchema]) -> None:
    """Rule 17.6."""
    for text, strict in zip(TEXTS, schemas, strict=True):
        if "'" in text or '"' in text:
            continue
        spread = text.replace("(", " ( ").replace(")", "\n)").replace(", ", ",\t")
        assert parse_schema(spread, dialect="loose") == strict


def partition(texts: Iterable[str], signature: Callable[[str], object]) -> set[frozenset[str]]:
    """The sets of schemas that share a signature."""
    families: defaultdict[object, set[str]] = defaultdict(set)
    for text in texts:
        families[signature(text)].add(text)
    return {frozenset(family) for family in families.values()}


@pytest.mark.oracle
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"strip_default": True},
        {"strip_view_copy_name": True},
        {"keep_return_names": True},
    ],
    ids=lambda options: next(iter(options), "plain"),
)
def test_signatures_make_the_same_families_as_torchgen(options: dict[str, bool]) -> None:
    """Rule 17.4."""
    torchgen_model = pytest.importorskip("torchgen.model")
    # torchgen gives this one overload a default that its schema does not have.
    texts = [text for text in TEXTS if not text.startswith("bernoulli.p(")]

    ours = {text: parse_schema(text).signature(**options) for text in texts}
    theirs = {
        text: torchgen_model.FunctionSchema.parse(text).signature(**options) for text in texts
    }

    assert partition(texts, ours.__getitem__) == partition(texts, theirs.__getitem__)
    assert {text: str(ours[text]) for text in texts} == {text: str(theirs[text]) for text in texts}


@pytest.mark.oracle
def test_bernoulli_p_is_the_only_schema_torchgen_treats_specially() -> None:
    """Rule 17.4."""
    torchgen_model = pytest.importorskip("torchgen.model")
    (text,) = (text for text in TEXTS if text.startswith("bernoulli.p("))
    special = torchgen_model.FunctionSchema.parse(text).signature()

    assert str(special) == str(parse_schema(text).signature()).replace("float p", "float p=0.5")


@pytest.mark.oracle
def test_return_names_agree_with_torchgen(schemas: list[FunctionSchema]) -> None:
    """Rule 17.5."""
    torchgen_model = pytest.importorskip("torchgen.model")
    torchgen_cpp = pytest.importorskip("torchgen.api.cpp")
    for schema in schemas:
        function = SimpleNamespace(func=torchgen_model.FunctionSchema.parse(str(schema)))
        assert list(schema.return_names()) == list(torchgen_cpp.return_names(function))


@pytest.mark.oracle
def test_queries_agree_with_torchgen(schemas: list[FunctionSchema]) -> None:
    torchgen_model = pytest.importorskip("torchgen.model")
    for schema in schemas:
        theirs = torchgen_model.FunctionSchema.parse(str(schema))
        assert schema.is_mutable == theirs.is_mutable
        assert schema.is_out_fn() == theirs.is_out_fn()
        assert schema.is_functional_fn() == theirs.is_functional_fn()
        assert list(schema.aliased_return_names()) == theirs.aliased_return_names()
        for ours, other in zip(schema.arguments.flat_all, theirs.arguments.flat_all, strict=True):
            assert str(ours) == str(other)
            assert ours.type.is_tensor_like() == other.type.is_tensor_like()
            assert ours.type.is_nullable() == other.type.is_nullable()
            assert ours.type.is_symint_like() == other.type.is_symint_like()
            assert ours.type.is_generator_like() == other.type.is_generator_like()
            assert str(ours.type.is_list_like()) == str(other.type.is_list_like())
