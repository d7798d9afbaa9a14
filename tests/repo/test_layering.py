"""Who may import whom: levels, cycles, imports inside functions, third-party packages.

A module imports strictly lower levels, or modules of its own unit. The unit of a module is the
longest entry of `LEVELS` that matches its name, so a new folder has to be given a level here. What
`pullback._lazy` loads later counts too: it stands in an import for type checkers (`test_lazy.py`).
"""

from __future__ import annotations

import ast
import sys
from fnmatch import fnmatchcase
from typing import NamedTuple

LEVELS = {
    "_cpython": 0,
    "errors": 0,
    "interrupts": 0,
    "_lazy": 0,
    "config": 0,
    "dtypes": 0,
    "promotion": 0,
    "schema": 0,
    "utils": 0,  # the folder itself imports nothing; its modules have levels of their own
    "utils.pytree": 0.5,
    "utils._pytree": 0.6,
    "utils._python_dispatch": 2.1,
    "utils.checkpoint": 7.1,  # runs functions in numpy_mode again
    "utils.serialization": 7,
    "utils.progress": 0.5,
    "utils.data": 3.7,  # datasets, and the processes that load them
    "dispatch": 1,
    "kernels": 1,
    "ops": 2,  # the namespaces of operators, beside the tables that they are made from
    "tensor": 2,
    "batching": 2.2,  # kernels for many samples at once, by operator
    "meta": 2.2,  # shapes without data, on top of tensors
    "_generated.operators": 2.5,
    "_generated.functions_*": 3,
    "_generated.public": 3.1,
    # A family of operators: the level of a module follows from its role.
    "operators": 0,  # the folders themselves import nothing
    "operators.*.kernels*": 1.1,
    "operators.*.shapes*": 1.2,
    "operators.*.batching*": 1.2,
    "operators.*.composites*": 3.5,  # operators made of others, by their functions
    "operators.creation.devices": 3.55,
    "operators.*.functions*": 3.6,  # functions that no schema describes
    "operators.array_functions": 3.6,
    "operators.aliases": 3.6,
    "operators.*.formulas*": 5,
    "operators.formula_loader": 5.1,
    "autograd": 4,
    "_generated": 6,
    "_generated.scipy_special": 6.2,  # loaded on demand
    "tensor.methods": 6.5,  # what the generated functions add to tensors by hand
    "codegen": 6,  # development time; its imports are limited below
    "linalg": 6.6,  # namespaces of functions
    "fft": 6.6,
    "special": 6.6,
    "fx": 6.8,  # graphs of programs, and the tracer that makes them
    "loops": 7.15,  # scan and its kind, on top of checkpointed loops
    "library": 7.2,  # custom operators, and checks that use transforms
    "func": 7,
    "sparse": 7.2,
    "autograd.functional": 7.1,  # beside the graph by name, but made of transforms
    "func.numpy_style": 7.2,
    "implicit": 7.15,  # derivatives of solutions, made of transforms
    "interop": 7,
    "compiled": 7.3,  # programs that are traced once and run as graphs
    "scipy": 7.3,  # derivative rules of SciPy's functions
    "optimize": 7.4,
    "dask": 7.4,  # tensors on dask arrays
    "distributed": 7.4,  # derivatives of sums over partitions, on executors
    "nn": 7.4,
    "masked": 7.4,
    "optim": 7.4,
    "": 7.5,  # the contents page: gathers all levels up to 7, and level 8 may use it as users do
    "cli": 8,
    "compat": 8,  # other libraries' interfaces
    "__main__": 8.5,
    "inspector": 0,  # the folder itself imports nothing; its modules have levels of their own
    "inspector.html_repr": 0.5,
    "inspector.catalogue": 0.5,
    "profiler": 7.42,
    "inspector.graph": 7.43,
    "inspector.export": 7.44,
    "inspector.page": 7.44,
    "inspector.inspection": 7.45,
    "testing": 8,
}
FLOOR = {
    "_cpython",
    "errors",
    "interrupts",
    "_lazy",
}  # import nothing of ours, so everybody may import them, level 0 too
ONLY = {  # units that may use less than their level allows
    "schema": {"errors"},
    "dispatch": {"schema", "errors", "config"},
    "kernels": {"dtypes", "promotion", "errors"},
    "codegen": {"schema", "errors"},
    "operators.*.kernels*": {"kernels", "errors"},  # arrays in, arrays out
    "operators.*.shapes*": {"kernels", "operators.*.kernels*", "errors"},
    "operators.*.batching*": {"kernels", "operators.*.kernels*", "errors"},
}
THIRD_PARTY = {
    "_cpython": {"numpy"},  # private names of NumPy, with fallbacks
    "errors": set(),
    "config": set(),
    "schema": set(),
    "dispatch": set(),
}
THIRD_PARTY |= {"codegen": {"numpy", "yaml"}, "compiled": {"numpy", "llvmlite", "tqdm"}}
THIRD_PARTY |= {"inspector.export": {"networkx"}}
THIRD_PARTY |= {"distributed": {"numpy", "dask", "distributed"}}
THIRD_PARTY |= {"dask": {"numpy", "dask", "distributed"}}
OF_SCIPY = ("kernels", "interop", "_generated.scipy_special", "scipy", "optimize", "sparse")
THIRD_PARTY |= {unit: {"numpy", "scipy"} for unit in OF_SCIPY}


class Import(NamedTuple):
    target: str
    line: int
    in_function: bool
    type_only: bool


def unit_of(module: str) -> str | None:
    name = module.removeprefix("pullback").removeprefix(".")
    fits = [u for u in LEVELS if name == u or fnmatchcase(name, u) or name.startswith(f"{u}.")]
    return max(fits, key=len, default=None)


def _targets(node: ast.Import | ast.ImportFrom, module: str, is_folder: bool, known) -> set[str]:
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names}
    base = node.module or ""
    if node.level:
        parents = module.split(".")
        keep = len(parents) - node.level + is_folder
        base = ".".join([*parents[:keep], *([base] if base else [])])
    names = {f"{base}.{alias.name}" for alias in node.names}
    return {name if name in known else base for name in names}


def imports_of(module: str, source: str, known, *, is_folder: bool = False) -> list[Import]:
    """Every import statement of a module, also those in functions and under TYPE_CHECKING."""
    found = []

    def walk(node: ast.AST, in_function: bool, type_only: bool) -> None:
        if isinstance(node, ast.Import | ast.ImportFrom):
            targets = sorted(_targets(node, module, is_folder, known))
            found.extend(Import(t, node.lineno, in_function, type_only) for t in targets)
        in_function |= isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        guarded = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for field, value in ast.iter_fields(node):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    walk(child, in_function, type_only or (guarded and field == "body"))

    walk(ast.parse(source), False, False)
    return found


def _complaint(module: str, unit: str, imp: Import) -> str | None:
    top = imp.target.split(".")[0]
    if top != "pullback":
        allowed = {*sys.stdlib_module_names, *THIRD_PARTY.get(unit, {"numpy"})}
        return None if top in allowed else f"may not import {top}"
    target = unit_of(imp.target)
    if imp.in_function:
        return f"imports {imp.target} inside a function"
    if target is None:
        return f"imports {imp.target}, which has no level"
    # A folder may offer its own modules, whatever their level, if it does not load them itself.
    if target == unit or target in FLOOR:
        return None
    if imp.type_only and imp.target.startswith(f"{module}."):
        return None
    below = LEVELS[target] < LEVELS[unit]
    if not below or (unit in ONLY and target not in ONLY[unit]):
        return f"may not import {imp.target}"
    return None


def layering_problems(sources: dict[str, str], folders: set[str] = frozenset()) -> list[str]:
    problems = []
    for module, source in sources.items():
        unit = unit_of(module)
        if unit is None:
            problems.append(f"{module} has no level: add it to LEVELS")
            continue
        for imp in imports_of(module, source, sources, is_folder=module in folders):
            if complaint := _complaint(module, unit, imp):
                problems.append(f"{module}:{imp.line} {complaint}")
    return problems


def cycles(sources: dict[str, str], folders: set[str] = frozenset()) -> list[str]:
    """Modules that lie on an import cycle: what is left when all outer modules are peeled off."""
    left = {}
    for module, source in sources.items():
        imports = imports_of(module, source, sources, is_folder=module in folders)
        left[module] = {i.target for i in imports if not i.type_only and not i.in_function}
    while True:
        imported = set().union(*left.values())
        inner = {m: t for m, t in left.items() if t & left.keys() and m in imported}
        if len(inner) == len(left):
            return sorted(left)
        left = inner


def _package(package_files):
    sources = {name: path.read_text(encoding="utf-8") for name, path in package_files.items()}
    return sources, {name for name, path in package_files.items() if path.stem == "__init__"}


def test_the_package_keeps_its_layers(package_files):
    assert layering_problems(*_package(package_files)) == []


def test_the_package_has_no_import_cycle(package_files):
    assert cycles(*_package(package_files)) == []


def _problems_of(module: str, source: str, *others: str) -> list[str]:
    return layering_problems({module: source, **dict.fromkeys(others, "")})


def test_an_upward_import_is_caught():
    source = "from pullback.dispatch import keys\n"
    assert _problems_of("pullback.schema.parse", source, "pullback.dispatch.keys") == [
        "pullback.schema.parse:1 may not import pullback.dispatch.keys"
    ]
    assert _problems_of("pullback.schema.parse", "from ..dispatch import keys\n")


def test_a_sideways_or_withheld_import_is_caught():
    assert _problems_of("pullback.operators.fft.kernels", "import pullback.dispatch.keys\n")
    assert _problems_of("pullback.dispatch.keys", "from pullback.dtypes import float64\n")
    assert _problems_of("pullback.dispatch.keys", "from pullback import __version__\n")


def test_a_type_checking_import_counts():
    source = "if TYPE_CHECKING:\n    from pullback.tensor import Tensor\n"
    assert _problems_of("pullback.dispatch.keys", source)


def test_a_folder_may_offer_its_own_modules_without_loading_them():
    source = "from pullback.autograd import functional\n"
    others = ("pullback.autograd.functional",)
    assert _problems_of("pullback.autograd", source, *others)
    assert _problems_of("pullback.autograd", f"if TYPE_CHECKING:\n    {source}", *others) == []
    assert _problems_of("pullback.tensor", f"if TYPE_CHECKING:\n    {source}", *others)


def test_an_import_inside_a_function_is_caught():
    source = "def f():\n    from pullback.errors import PullbackError\n"
    assert _problems_of("pullback.dispatch.keys", source) == [
        "pullback.dispatch.keys:2 imports pullback.errors inside a function"
    ]


def test_numpy_in_the_dispatcher_and_torch_anywhere_are_caught():
    assert _problems_of("pullback.dispatch.keys", "import numpy as np\n")
    assert _problems_of("pullback.tensor.repr", "import numpy as np\n") == []
    assert _problems_of("pullback.tensor.repr", "from torch import nn\n")


def test_a_module_without_a_level_is_caught():
    assert _problems_of("pullback.misc", "")


def test_lower_levels_and_the_own_folder_are_allowed():
    source = "from . import modes\nfrom ..errors import DispatchError\nfrom .. import schema\n"
    others = ("pullback.dispatch.modes", "pullback.errors", "pullback.schema")
    assert _problems_of("pullback.dispatch.keys", source, *others) == []


def test_a_cycle_is_caught_but_not_among_type_only_imports():
    there = {"pullback.dispatch.a": "from pullback.dispatch import b\n"}
    back = "from pullback.dispatch.a import f\n"
    outer = {"pullback.cli": back, "pullback.errors": ""}
    assert cycles({**there, "pullback.dispatch.b": back, **outer}) == [
        "pullback.dispatch.a",
        "pullback.dispatch.b",
    ]
    assert cycles({**there, "pullback.dispatch.b": f"if TYPE_CHECKING:\n    {back}"}) == []
