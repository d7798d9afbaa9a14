"""No test hides another one of the same name in the same file or class."""

from __future__ import annotations

import ast
from collections import Counter


def hidden_tests(source: str) -> list[str]:
    """Names of tests and test classes that one body defines more than once."""
    found = []
    for scope in ast.walk(ast.parse(source)):
        if isinstance(scope, ast.Module | ast.ClassDef):
            definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
            names = Counter(n.name for n in scope.body if isinstance(n, definitions))
            found += [n for n, k in names.items() if k > 1 and n.lower().startswith("test")]
    return found


def test_no_test_hides_another(code):
    tests = {path: text for path, text in code.items() if path.startswith("tests/")}
    assert {path: names for path, text in tests.items() if (names := hidden_tests(text))} == {}


def test_a_hidden_test_is_caught():
    twice = "def test_a(): ...\ndef test_b(): ...\nasync def test_a(): ...\n"
    assert hidden_tests(twice) == ["test_a"]
    assert hidden_tests("class TestX:\n    def test_a(self): ...\n    def test_a(self): ...\n")
    assert hidden_tests("class TestX: ...\nclass TestX: ...\n") == ["TestX"]
    assert hidden_tests("def test_a(): ...\nclass TestX:\n    def test_a(self): ...\n") == []
