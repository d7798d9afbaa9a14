"""`__all__` is what a module offers: importable, in ruff's order, and complete."""

from __future__ import annotations

import ast
import importlib
import re
from types import ModuleType

# Here `__all__` is a registry: what formulas may call.
REGISTRIES = re.compile(r"pullback\.operators\..*\.formulas\w*")
GENERATED = "pullback._generated"  # its names are those of the tables


def listed(source: str) -> list[str] | None:
    """The value of a module's `__all__`, or None if it has none."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if ast.unparse(target) == "__all__":
                return list(ast.literal_eval(node.value))
    return None


def bound(source: str, *, imports: bool) -> set[str]:
    """The public names that the top level of a module binds; by importing too, with `imports`."""
    names = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            continue
        if isinstance(node, ast.Import | ast.ImportFrom) and imports:
            bindings = [(alias.asname or alias.name).split(".")[0] for alias in node.names]
            names |= {name for name in bindings if name not in ("*", "pullback")}
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)}
    return {name for name in names if not name.startswith("_")}


def _order(name: str) -> tuple[int, list[str | int]]:
    """Ruff's order (RUF022): constants, classes, the rest; numbers inside names by value."""
    kind = 0 if len(name) > 1 and name.isupper() else 1 if name[:1].isupper() else 2
    return kind, [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def export_problems(module: ModuleType, source: str, *, is_folder: bool) -> list[str]:
    names = listed(source)
    if names is None:
        return [f"{module.__name__} has no __all__"] if is_folder else []
    offered = list(getattr(module, "__all__", names))  # the contents page adds to its list
    problems = [f"{n} is listed but absent" for n in offered if not hasattr(module, n)]
    if names != sorted(set(names), key=_order):
        problems.append("__all__ is not sorted, or has duplicates")
    # What a folder imports is its contents page; what a module imports is its own business.
    unlisted = bound(source, imports=is_folder) - set(offered)
    if REGISTRIES.fullmatch(module.__name__):
        unlisted = set()
    problems += [f"{n} is public but not listed" for n in sorted(unlisted)]
    return [f"{module.__name__}: {problem}" for problem in problems]


def test_every_module_offers_what_it_lists(package_files, tool_files):
    problems = []
    for name, path in (package_files | tool_files).items():
        source, is_folder = path.read_text(encoding="utf-8"), path.stem == "__init__"
        if name.startswith(GENERATED) or name == "tools":
            continue
        if is_folder or listed(source) is not None:
            module = importlib.import_module(name)
            problems += export_problems(module, source, is_folder=is_folder)
    assert problems == []


def _check(source: str, *, is_folder: bool = True) -> list[str]:
    module = ModuleType("m")
    exec(source, module.__dict__)
    return export_problems(module, source, is_folder=is_folder)


def test_an_absent_name_is_caught():
    assert _check("__all__ = ['gone']") == ["m: gone is listed but absent"]
    assert _check("__all__: list[str] = ['gone']", is_folder=False) != []


def test_a_wrong_order_or_a_duplicate_is_caught():
    assert _check("__all__ = ['b', 'a']\na = b = 1")
    assert _check("__all__ = ['a', 'a']\na = 1")
    assert _check("__all__ = ['UP', 'Class', 'log2', 'log10']\nUP = Class = log2 = log10 = 1") == []


def test_an_unlisted_public_name_is_caught():
    source = "from json import dumps, loads as _loads\n__all__ = []\nclass C: ...\nx: int = 1"
    assert len(_check(source)) == 3
    assert _check(source, is_folder=False) == [
        "m: C is public but not listed",
        "m: x is public but not listed",
    ]


def test_a_folder_without_a_list_is_caught():
    assert _check("x = 1") == ["m has no __all__"]
