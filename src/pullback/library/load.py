"""Operators from a user's table, at run time.

The generator writes the same source as for built-in tables. It is compiled here instead of being
saved, and registered with ``linecache``, so that debuggers show it.
"""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Callable, Collection, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from pullback.codegen.emit.catalogue import operator_functions
from pullback.codegen.emit.files import formula_functions, generate
from pullback.codegen.names import kernel_names
from pullback.codegen.python_dialect import Arity
from pullback.dispatch.stock import forget_operators
from pullback.errors import CodegenError

__all__ = ["callable_in_formulas", "compile_operators", "load_ops"]

_PACKAGE = Path(__file__).resolve().parents[1]
_FIRST = ("operators", "functions_", "kernels_", "register", "public")


def load_ops(
    path: str | os.PathLike[str],
    *,
    namespace: str | None = None,
    kernels: Mapping[str, Callable[..., Any]] | None = None,
) -> ModuleType:
    """Reads a table of operators and returns a module with their functions.

    Args:
        path: a YAML table, written like those of the built-in operators.
        namespace: of the operators, as in ``namespace::op``; the file's name unless given.
        kernels: the functions on arrays that the table names without a module.

    Loading the same namespace again replaces its operators.
    """
    table = Path(path)
    namespace = namespace or table.stem
    if not namespace.isidentifier():
        raise CodegenError(f"load_ops: {namespace!r} is no identifier; say namespace='my_ops'")
    files = generate(
        [table],
        functions=callable_in_formulas(),
        kernels=kernel_names(_PACKAGE),
        namespace=namespace,
    )
    return compile_operators(files, namespace, kernels or {}, namespace)


@cache
def callable_in_formulas() -> dict[str, Arity | None]:
    """The names that formulas may call: helper functions and every operator."""
    functions = formula_functions()
    return functions | operator_functions(_PACKAGE / "_generated" / "catalogue.json")


def compile_operators(
    files: Mapping[str, str],
    label: str,
    kernels: Mapping[str, Callable[..., Any]],
    namespace: str,
    names: Collection[str] | None = None,
) -> ModuleType:
    """Compiles generated source, and returns its module of public functions.

    It replaces the operators of the namespace, or those with these `names`.
    """
    sources = {name[:-3]: text for name, text in files.items() if name.endswith(".py")}
    forget_operators(namespace, names)
    package = ModuleType(f"{__package__}.loaded_{label}", f"Operators of {label}.")
    package.__path__ = []
    sys.modules[package.__name__] = package
    for first in _FIRST:
        for name in sorted(name for name in sources if name.startswith(first)):
            setattr(package, name, _compile(package.__name__, name, sources[name], kernels))
    return package.public  # type: ignore[no-any-return]


def _compile(
    package: str, name: str, source: str, kernels: Mapping[str, Callable[..., Any]]
) -> ModuleType:
    module = ModuleType(f"{package}.{name}")
    module.__package__ = package
    module.__dict__.update(kernels)
    filename = f"<{module.__name__}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    sys.modules[module.__name__] = module
    exec(compile(source, filename, "exec"), module.__dict__)
    return module
