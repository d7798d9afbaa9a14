"""Comments, docstrings, names and documents use the vocabulary of the field.

Figures of speech and private words are listed with what to write instead. Texts of messages are
not checked, because many of them quote PyTorch; neither is generated code, nor code in documents.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

INSTEAD = {
    "nobody|somebody|anybody|everybody|whoever|no one": "the object or function that is meant",
    "who": "the object or function that is meant",
    "tells?|told|telling": "say, return, contain, distinguish",
    "knows|knew": "has, depends on, imports",
    "asks|asked|asking": "reads, requests, calls",
    "hurry|everyday": "the condition of the fast path",
    "roads?|way back|(long|short)er? way": "fast path, general path, backward formula",
    "doors?": "the functions that are meant",
    "born": "made, created",
    "noting|noted|tak(es?|ing) notes?": "record, tangent tape",
    "handed|shown": "passed, exposed, printed",
    "declined|declines": "unsupported",
}
FORBIDDEN = {re.compile(rf"\b(?:{words})\b", re.IGNORECASE): new for words, new in INSTEAD.items()}
QUESTION = re.compile(r"(?:What|Who|Where|Which|How|Why|When)\b")


def faults(lines: Iterator[tuple[int, str]]) -> list[str]:
    """The forbidden words in numbered texts, each with its place and what to write instead."""
    return [
        f"{number}: {match[0]!r} ({instead})"
        for number, text in lines
        for pattern, instead in FORBIDDEN.items()
        if (match := pattern.search(text))
    ]


def docstring_lines(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The lines of all docstrings, without their examples."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if ast.get_docstring(node) is not None:
            text = node.body[0]
            for number, line in enumerate(text.value.value.splitlines(), text.lineno):
                if not line.lstrip().startswith((">>>", "...")):
                    yield number, line


def questions(tree: ast.Module) -> list[str]:
    """Docstrings that begin with a question word, not with what the thing is or does."""
    nodes = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    texts = [ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, nodes)]
    return [text.partition("\n")[0] for text in texts if text and QUESTION.match(text)]


def defined_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Names of functions, classes, parameters, variables and attributes, as separate words."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            name = node.name
        elif isinstance(node, ast.arg):
            name = node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            name = node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            name = node.attr
        else:
            continue
        yield node.lineno, re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", name)


def comments(source: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def faults_of_module(source: str) -> list[str]:
    tree = ast.parse(source)
    return faults([*docstring_lines(tree), *defined_names(tree), *comments(source)])


def faults_of_document(text: str) -> list[str]:
    prose = re.sub(r"^( *)```.*?^ *```", lambda m: "\n" * m[0].count("\n"), text, flags=re.S | re.M)
    return faults(enumerate(prose.splitlines(), 1))


@pytest.fixture(scope="module")
def sources(package_files) -> dict[str, str]:
    """The checked modules, by their place in the package."""
    places = {
        path.as_posix().partition("src/pullback/")[2]: path for path in package_files.values()
    }
    return {
        place: path.read_text(encoding="utf-8")
        for place, path in places.items()
        if not place.startswith("_generated/")
    }


def test_modules_use_the_fields_words(sources):
    found = {place: faults_of_module(source) for place, source in sources.items()}
    assert {place: words for place, words in found.items() if words} == {}


def test_docstrings_begin_with_what_the_thing_is(sources):
    found = {place: questions(ast.parse(source)) for place, source in sources.items()}
    assert {place: texts for place, texts in found.items() if texts} == {}


def test_tables_and_documents_use_the_fields_words(root: Path):
    names = ["README.md", "ARCHITECTURE.md", "benchmarks/README.md"]
    paths = [root / name for name in names]
    paths += sorted(root.glob("docs/**/*.md")) + sorted(root.glob("src/pullback/**/table.yaml"))
    assert len(paths) > 30
    found = {path: faults_of_document(path.read_text(encoding="utf-8")) for path in paths}
    assert {str(path): words for path, words in found.items() if words} == {}


@pytest.mark.parametrize(
    "source",
    [
        '"""Tells which."""',
        "def f():\n    '''One.\n\n    Nobody has seen it.\n    '''",
        "x = 1  # whoever asks",
        "def take(handed): ...",
        "def short_road(): ...",
        "class NotedValue: ...",
        "x.shown = 1",
    ],
)
def test_forbidden_words_are_found(source):
    assert faults_of_module(source)


@pytest.mark.parametrize(
    "source",
    [
        '"""What is known."""',
        "def f():\n    '''Returns it.\n\n    >>> told = 1\n    '''",
        'raise ValueError("nobody asked")',
        "y = x.shown()",
        "acknowledged = stored = 1",
    ],
)
def test_messages_examples_and_uses_are_allowed(source):
    assert not faults_of_module(source)


def test_question_words_are_found():
    assert questions(ast.parse('def f():\n    """How it is."""')) == ["How it is."]
    assert not questions(ast.parse('def f():\n    """Whether it is."""'))


def test_code_in_documents_is_allowed():
    assert not faults_of_document("Text.\n\n```python\ntold = 1\n```\n")
    assert faults_of_document("Text.\n\n```python\ntold = 1\n```\n\nThe road of a call.") == [
        "7: 'road' (fast path, general path, backward formula)"
    ]
