"""Files and functions stay small. An exception is named here with its reason, or does not exist."""

from __future__ import annotations

import ast

FILE_LINES = 700
FUNCTION_LINES = 60
GENERATED = "src/pullback/_generated/"

# path, or path::qualified.name of a function -> why it may be longer
EXCEPTIONS: dict[str, str] = {
    "src/pullback/autograd/engine/array_loop.py::run_array_loop": (
        "every backward pass spends half its time in this loop; a call in it costs a tenth"
    ),
}


def function_lengths(source: str) -> dict[str, int]:
    """Lines of every function, from `def` to its end, by qualified name."""
    lengths = {}

    def walk(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            name = prefix
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                name = f"{prefix}.{child.name}".lstrip(".")
                if not isinstance(child, ast.ClassDef):
                    assert child.end_lineno is not None
                    length = child.end_lineno - child.lineno + 1
                    lengths[name] = max(length, lengths.get(name, 0))
            walk(child, name)

    walk(ast.parse(source), "")
    return lengths


def over_budget(code: dict[str, str]) -> dict[str, int]:
    found = {}
    for path, source in code.items():
        lines = len(source.splitlines())
        if lines > FILE_LINES:
            found[path] = lines
        for name, length in function_lengths(source).items():
            if length > FUNCTION_LINES:
                found[f"{path}::{name}"] = length
    return found


def budget_problems(code: dict[str, str], exceptions: dict[str, str]) -> list[str]:
    found = over_budget(code)
    problems = [f"{where}: {n} lines" for where, n in found.items() if where not in exceptions]
    problems += [f"{w}: no longer needs its exception" for w in exceptions if w not in found]
    return problems + [f"{w}: exception without a reason" for w in exceptions if not exceptions[w]]


def test_hand_written_code_is_within_budget(code):
    by_hand = {path: text for path, text in code.items() if not path.startswith(GENERATED)}
    assert budget_problems(by_hand, EXCEPTIONS) == []


LONG_FUNCTION = "class C:\n    async def f(self):\n" + "        x = 1\n" * FUNCTION_LINES


def test_a_long_file_is_caught():
    assert budget_problems({"a.py": "x = 1\n" * FILE_LINES}, {}) == []
    assert budget_problems({"a.py": "x = 1\n" * (FILE_LINES + 1)}, {}) == ["a.py: 701 lines"]


def test_a_long_function_is_caught():
    assert budget_problems({"a.py": LONG_FUNCTION}, {}) == ["a.py::C.f: 61 lines"]
    assert budget_problems({"a.py": LONG_FUNCTION}, {"a.py::C.f": "a table"}) == []


def test_an_exception_without_need_or_reason_is_caught():
    assert budget_problems({"a.py": "x = 1\n"}, {"a.py": "a table"})
    assert budget_problems({"a.py": LONG_FUNCTION}, {"a.py::C.f": ""})
