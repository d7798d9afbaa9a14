"""From tables to files: what is generated, and whether it is what is there."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from pullback.codegen.emit import modules, stubs
from pullback.codegen.emit.catalogue import emit_catalogue
from pullback.codegen.emit.forward import is_auto_linear
from pullback.codegen.emit.model import Emitted
from pullback.codegen.families import family_of, formula_modules
from pullback.codegen.load_ops import load_ops
from pullback.codegen.names import check_kernels
from pullback.codegen.python_dialect import Arity
from pullback.codegen.tables import Tables

__all__ = [
    "METHOD_STUBS",
    "changed_files",
    "formula_functions",
    "generate",
    "generate_from",
    "write_files",
]

METHOD_STUBS = "../tensor/method_types.pyi"
"""The file of a generated package that stands outside its folder."""

# What the engine's namespaces offer to formulas besides operators and helpers.
_ENGINE_FUNCTIONS = {"expand": Arity(2, 2), "expand_reduced": Arity(4, 4)}


def formula_functions() -> dict[str, Arity | None]:
    """The helpers that formulas may call: names and arities, read from source, not imported."""
    found: dict[str, Arity | None] = dict(_ENGINE_FUNCTIONS)
    for path in formula_modules():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                found[node.name] = _arity(node.args)
    return found


def _arity(arguments: ast.arguments) -> Arity:
    """The number of arguments of a formula helper, without the namespace."""
    positional = len(arguments.posonlyargs) + len(arguments.args) - 1
    keyword_only = len(arguments.kwonlyargs)
    optional = len(arguments.defaults) + sum(d is not None for d in arguments.kw_defaults)
    most = None if arguments.vararg or arguments.kwarg else positional + keyword_only
    return Arity(positional + keyword_only - optional, most)


def generate(
    tables: list[Path],
    *,
    functions: Mapping[str, Arity | None] | None = None,
    kernels: Collection[str] | None = None,
    namespace: str = "pullback",
    on_demand: bool = False,
) -> dict[str, str]:
    """The generated files of some tables: name to text.

    `functions` are what formulas may call besides the tables' own operators, `kernels` the
    functions of ours that tables may name; None checks nothing.
    """
    loaded = load_ops(*tables, functions=functions)
    if kernels is not None:
        check_kernels(loaded.functions, kernels)
    names = [family_of(table) for table in tables]
    return generate_from(loaded, names, namespace, on_demand=on_demand)


def generate_from(
    loaded: Tables, names: list[str], namespace: str, *, on_demand: bool = False
) -> dict[str, str]:
    """The generated files of tables that have been read; `names` are those of their families.

    `on_demand` says that the functions are few programs' and may share code.
    """
    ops = [Emitted(matched) for matched in loaded.match()]
    families: dict[str, list[Emitted]] = {name: [] for name in names}
    for op in ops:
        assert op.function.place is not None
        families[family_of(op.function.place.file)].append(op)
    files = {
        "operators.py": modules.operators_module(families, namespace),
        "operators.pyi": stubs.emit_operator_stubs(sorted(ops, key=lambda op: op.name)),
        "register.py": modules.register_module(families),
        "methods.py": modules.methods_module(families),
        "methods.pyi": "",
        "public.py": modules.public_module(families),
        "catalogue.json": emit_catalogue(sorted(ops, key=lambda op: op.name), namespace),
    }
    for family, members in families.items():
        files[f"functions_{family}.py"] = modules.functions_module(
            family, members, on_demand=on_demand
        )
        public = modules.public_functions(members)
        with_out = modules.functions_with_out(members)
        files[f"functions_{family}.pyi"] = stubs.emit_function_stubs(public, with_out)
        kernels = modules.kernels_module(family, members)
        files[f"kernels_{family}.py"] = _with_own_calls(kernels, members, namespace)
        files[f"kernels_{family}.pyi"] = stubs.emit_kernel_stubs()
    files["lowerings.py"] = modules.lowerings_module(ops)
    if not on_demand:
        files["dask_rules.py"] = modules.dask_rules_module(ops)
    if namespace == "pullback":
        files[METHOD_STUBS] = stubs.emit_method_stubs(ops)
    return files


def _with_own_calls(text: str, ops: list[Emitted], namespace: str) -> str:
    """The forward rules of ``auto_linear`` call their own operator, by its qualified name.

    The engine's namespaces have the operators of other namespaces by qualified names; the plain
    name may be that of a built-in operator.
    """
    if namespace == "pullback":
        return text
    for op in ops:
        head = f"def {op.name}_jvp("
        if head not in text or not is_auto_linear(op):
            continue
        before, rest = text.split(head)
        body, gap, after = rest.partition("\n\n\n")
        base = str(op.function.func.name.name.base)
        body = body.replace(f"xp.{base}(", f'getattr(xp, "{namespace}::{base}")(')
        text = f"{before}{head}{body}{gap}{after}"
    return text


def _present(folder: Path) -> set[str]:
    kinds = ("*.py", "*.pyi", "*.json")
    return {path.name for kind in kinds for path in folder.glob(kind)} - {"__init__.py"}


def _same(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text


def changed_files(files: Mapping[str, str], folder: Path) -> list[str]:
    """The files of a folder that are missing, different, or no longer generated."""
    different = [name for name, text in files.items() if not _same(folder / name, text)]
    return sorted({*different, *(_present(folder) - files.keys())})


def write_files(files: Mapping[str, str], folder: Path, changed: Iterable[str]) -> None:
    """Makes a folder hold exactly these generated files."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in changed:
        if name in files:
            (folder / name).write_text(files[name], encoding="utf-8")
        else:
            (folder / name).unlink()
    if not (folder / "__init__.py").exists():
        (folder / "__init__.py").write_text(
            '"""Generated by ``python -m pullback codegen``."""\n', encoding="utf-8"
        )
