"""Files and functions stay small. An exception is named here with its reason, or does not exist."""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path

import pytest

from pullback.autograd.record.fused import FUSED
from pullback.dispatch.table import ENTRIES

ROOT = Path(__file__).resolve().parents[2]
FILE_LINES = 700
FUNCTION_LINES = 60
GENERATED = "src/pullback/_generated/"

# Functions of autograd/record/operands.py.
HOT_FUNCTIONS = ("record_two", "record_two.record", "_run_two", "_run_two.run")

# path, or path::qualified.name of a function -> why it may be longer
EXCEPTIONS: dict[str, str] = {
    "src/pullback/autograd/engine/array_loop.py::run_array_loop": (
        "every backward pass spends half its time in this loop; a call in it costs a tenth"
    ),
    **dict.fromkeys(
        [f"src/pullback/autograd/record/operands.py::{name}" for name in HOT_FUNCTIONS],
        "programs loop over these functions on small arrays; a call in one costs 5 % of it",
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


# What the generator writes, in lines without stubs, and the part of it for SciPy's functions.
GENERATED_LINES = 34_000
SPECIAL_LINES = 10_000
# What it writes of one operator: comment, formulas, row.
OPERATOR_LINES = {"sin": 40, "mul": 60}
MOST_FUSED = 16


def generated_lines(folder: Path) -> int:
    """Lines of the generated source in a folder, without stubs."""
    paths = [path for path in folder.rglob("*") if path.suffix in (".py", ".json")]
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def test_generated_source_is_within_budget():
    folder = ROOT / GENERATED
    total, special = generated_lines(folder), generated_lines(folder / "scipy_special")
    print(f"generated: {total} lines, of these scipy_special: {special}")
    assert 0 < special <= SPECIAL_LINES
    assert total <= GENERATED_LINES


def operator_lines(source: str, name: str) -> int:
    """Lines of one operator in a generated module: from its comment to the end of its row."""
    lines = source.splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith(f"# {name}("))
    last = next(n for n in range(first, len(lines)) if "# fmt: skip" in lines[n])
    return last - first + 1


def test_generated_operators_are_within_budget():
    source = (ROOT / GENERATED / "kernels_pointwise.py").read_text(encoding="utf-8")
    for name, budget in OPERATOR_LINES.items():
        assert operator_lines(source, name) <= budget


def test_few_operators_have_a_fused_form():
    assert 0 < len(FUSED) <= MOST_FUSED
    assert all(name in ENTRIES for name in FUSED)


def test_formulas_appear_once_in_generated_source():
    """The body of a VJP formula stands in one function only."""
    source = (ROOT / GENERATED / "kernels_pointwise.py").read_text(encoding="utf-8")
    functions = [n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef)]
    names = [function.name for function in functions]
    assert len(names) == len(set(names))
    assert {name.rpartition("_vjp_")[2] for name in names if name.startswith("mul_vjp")} == {
        "self",
        "other",
    }
    assert not [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef)]


# --- sizes of the parts ---------------------------------------------------------------------------

# Packages that are not part of the core, each group with the code lines that it is planned to have.
LATER_PACKAGES = {
    "scipy optimize implicit": 8_000,
    "compiled fx": 5_000,
    "nn optim masked": 6_000,
    "dask distributed": 2_500,
    "inspector profiler": 2_000,
}
# Modules beside ``__init__.py``.
MOST_MODULES = {"": 6, "autograd": 8}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def code_lines(source: str) -> int:
    """Lines with code: without docstrings, comments and blank lines."""
    documentation: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            text = node.body[0]
            assert text.end_lineno is not None
            documentation.update(range(text.lineno, text.end_lineno + 1))
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NO_CODE:
            found.update(range(token.start[0], token.end[0] + 1))
    return len(found - documentation)


def sizes(code: dict[str, str]) -> dict[str, tuple[int, int]]:
    """Lines with code and all lines of every folder of the package, subfolders included."""
    found: dict[str, tuple[int, int]] = {}
    for path, source in code.items():
        if not path.startswith("src/pullback/") or path.startswith(GENERATED):
            continue
        own, lines = code_lines(source), len(source.splitlines())
        folder = Path(path).relative_to("src/pullback").parent
        for part in (folder, *folder.parents):
            before = found.get(part.as_posix(), (0, 0))
            found[part.as_posix()] = before[0] + own, before[1] + lines
    return found


def test_sizes_of_the_folders_are_printed(code):
    """``pytest -s -k sizes tests/repo/test_budgets.py`` shows the table."""
    found = sizes(code)
    core = found["."][0]
    for group, planned in LATER_PACKAGES.items():
        present = sum(found.get(name, (0, 0))[0] for name in group.split())
        core -= present
        print(f"\n{group}: {present} code lines of {planned}", end="")
    print(f"\nall other packages: {core} code lines\n  code     all  folder")
    for folder, (own, lines) in sorted(found.items()):
        if folder.count("/") <= 1:
            print(f"{own:6} {lines:7}  {folder}")
    assert 0 < core <= found["."][0] < found["."][1]


@pytest.mark.parametrize(("folder", "budget"), MOST_MODULES.items())
def test_few_modules_stand_beside_the_folders(folder, budget):
    modules = [path.stem for path in (ROOT / "src/pullback" / folder).glob("*.py")]
    assert "__init__" in modules
    assert len(modules) - 1 <= budget


def test_only_code_is_counted():
    source = '''"""Text.

    More of it."""

# a comment
def f(x):  # another one
    """What it does."""

    text = """two
    lines"""
    return (x,
            text)
'''
    assert code_lines(source) == 5
    assert sizes({"src/pullback/a/b/c.py": source})["a"] == (5, 12)


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
