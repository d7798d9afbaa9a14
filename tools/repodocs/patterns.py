"""Patterns and costs that a syntax tree shows: nothing is guessed from names of files.

Each note has the line that shows it. A class counts as a data class because of its decorator, a
context manager because of its methods or decorator, a generator because of ``yield``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tools.repodocs.records import Note

DECORATORS = {
    "dataclass": "data class",
    "contextmanager": "context manager",
    "asynccontextmanager": "asynchronous context manager",
    "property": "property",
    "staticmethod": "static method",
    "classmethod": "class method",
    "abstractmethod": "abstract method",
    "overload": "overloads",
    "singledispatch": "single dispatch",
    "total_ordering": "total ordering",
    "fixture": "test fixture",
    "parametrize": "parametrised test",
}
CACHES = {"cache", "lru_cache", "cached_property"}
BASES = {
    "NamedTuple": "named tuple",
    "TypedDict": "typed dictionary",
    "Protocol": "protocol",
    "ABC": "abstract base class",
    "Enum": "enumeration",
    "IntEnum": "enumeration",
    "StrEnum": "enumeration",
    "Flag": "enumeration",
    "Exception": "exception",
}
METHODS = {
    "__enter__": "context manager",
    "__aenter__": "asynchronous context manager",
    "__get__": "descriptor",
    "__iter__": "iterable",
    "__init_subclass__": "hook for subclasses",
    "__class_getitem__": "generic by subscription",
}
LOOPS = (ast.For, ast.AsyncFor, ast.While)
DEEP_LOOPS = 3
Block = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def find_patterns(tree: ast.Module) -> list[Note]:
    """Return the patterns of a file in the order of its lines, one note a place."""
    found: list[Note] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            found += _class_patterns(node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found += _function_patterns(node)
        elif isinstance(node, ast.If) and _is_main_guard(node.test):
            found.append(_note("program", "runs as a script", node))
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef) and statement.name == "__getattr__":
            found.append(_note("lazy names", "the module has its own __getattr__", statement))
    return sorted(found, key=lambda note: (note["line"], note["name"]))


def find_performance(tree: ast.Module) -> list[Note]:
    """Return what the tree shows about cost: caches, slots, deferred imports, nested loops."""
    found: list[Note] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and _has_slots(node):
            found.append(_note("slots", f"{node.name} has a fixed layout", node))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            caches = sorted(CACHES & set(_decorators(node)))
            if caches:
                found.append(_note("cache", f"{node.name} keeps its results ({caches[0]})", node))
            depth = _loop_depth(node)
            if depth >= DEEP_LOOPS:
                detail = f"{node.name} has loops in loops, {depth} deep"
                found.append(_note("nested loops", detail, node))
            for inner in node.body:
                if isinstance(inner, ast.Import | ast.ImportFrom):
                    detail = f"{node.name} imports when it is called"
                    found.append(_note("deferred import", detail, inner))
    return sorted(found, key=lambda note: (note["line"], note["name"]))


def _note(name: str, detail: str, node: ast.stmt) -> Note:
    return Note(name=name, detail=detail, line=node.lineno)


def _last_name(node: ast.expr) -> str:
    while isinstance(node, ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _decorators(node: Block) -> list[str]:
    return [_last_name(decorator) for decorator in node.decorator_list]


def _class_patterns(node: ast.ClassDef) -> Iterator[Note]:
    names = [DECORATORS[name] for name in _decorators(node) if name in DECORATORS]
    names += [BASES[name] for base in node.bases if (name := _last_name(base)) in BASES]
    if any(keyword.arg == "metaclass" for keyword in node.keywords):
        names.append("metaclass")
    for statement in node.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            names += [METHODS[statement.name]] if statement.name in METHODS else []
    for name in dict.fromkeys(names):
        yield _note(name, node.name, node)


def _function_patterns(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Note]:
    decorators = _decorators(node)
    for name in decorators:
        if name in DECORATORS:
            yield _note(DECORATORS[name], node.name, node)
        elif name in CACHES:
            yield _note("cache", node.name, node)
    if isinstance(node, ast.AsyncFunctionDef):
        yield _note("coroutine", node.name, node)
    own = list(_own_nodes(node))
    managed = {"contextmanager", "asynccontextmanager", "fixture"} & set(decorators)
    if not managed and any(isinstance(inner, ast.Yield | ast.YieldFrom) for inner in own):
        yield _note("generator", node.name, node)
    returned = {inner.value.id for inner in own if _returns_name(inner)}  # type: ignore[attr-defined]
    nested = {s.name for s in node.body if isinstance(s, ast.FunctionDef | ast.AsyncFunctionDef)}
    if returned & nested:
        yield _note("closure", f"{node.name} returns a function that it defines", node)


def _returns_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Return) and isinstance(node.value, ast.Name)


def _own_nodes(node: Block) -> Iterator[ast.AST]:
    """Nodes of a function without those of functions and classes in it."""
    stack: list[ast.AST] = list(node.body)
    while stack:
        inner = stack.pop()
        yield inner
        if not isinstance(
            inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda
        ):
            stack.extend(ast.iter_child_nodes(inner))


def _is_main_guard(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and getattr(test.left, "id", "") == "__name__"


def _has_slots(node: ast.ClassDef) -> bool:
    for statement in node.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        if any(getattr(target, "id", "") == "__slots__" for target in targets):
            return True
    calls = [decorator for decorator in node.decorator_list if isinstance(decorator, ast.Call)]
    return any(
        keyword.arg == "slots" and getattr(keyword.value, "value", False) is True
        for call in calls
        for keyword in call.keywords
    )


def _loop_depth(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    deepest = 0
    stack: list[tuple[ast.AST, int]] = [(statement, 0) for statement in node.body]
    while stack:
        inner, depth = stack.pop()
        if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        depth += isinstance(inner, LOOPS)
        deepest = max(deepest, depth)
        stack.extend((child, depth) for child in ast.iter_child_nodes(inner))
    return deepest
