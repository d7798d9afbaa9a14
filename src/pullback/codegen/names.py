"""Names in operator tables: those that an argument may not have, and those of kernels.

Generated functions have the arguments of a schema as parameters, beside variables and imports of
their own, and nodes keep arguments under their names. A name that both use would give a wrong
result or an unrelated error, so the reader of the tables refuses it; a test compares the lists
below with the generated source. Called by ``load_ops`` and ``emit.files``.
"""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Collection, Iterable
from pathlib import Path

import numpy as np

from pullback.codegen.load_yaml import nearest
from pullback.codegen.native import META_RULES, NativeFunction
from pullback.errors import CodegenError

__all__ = [
    "IN_FUNCTIONS",
    "IN_KERNELS",
    "check_arguments",
    "check_kernels",
    "derived_names",
    "kernel_names",
]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


IN_FUNCTIONS = _words(
    "CPU_FLAGS ERRORS KeyError MUTABLE Tensor as_operand error flags get_state kernel named_error "
    "operators t type"
)
"""Names that the public function of an operator reads beside its arguments."""

IN_KERNELS = IN_FUNCTIONS | _words(
    "EDGED FLOAT64 FLOAT64_METADATA FREED MAX_DIRECT_SIZE MIN_FUSED_SIZE MIN_THREADED_HEAVY_SIZE "
    "ManyEdges OneEdge RECORDED_FLAGS SliceCotangent SliceNode TwoEdges UNDESCRIBED all array "
    "base broadcast_ufunc check_inplace constant constant_shape differs edge edge_of first_array "
    "grad grad_input_mask grads input_array intern_metadata is_few keep len map metadata ndarray "
    "new_tensor node np number output_array pullback record_inplace record_view record_views "
    "recorded recorded_list recorded_several result results save_before_write save_list "
    "save_output second_array sequence_counter spread squeeze_singleton tuple wrap write write_by "
    "write_out xp zip"
)
"""Names that kernels, nodes and forward formulas read beside their operator's arguments."""

_OF_NODES = _words(
    "backward make_hooks metadata name next_functions register_hook register_prehook release run "
    "run_on save_outputs shared_counter"
)
_DERIVED = (
    "{}_v",
    "{}_t",
    "{}_p",
    "{}_tangent",
    "to_{}",
    "grad_of_{}",
    "each_{}",
)
# NumPy's functions, the modules of ours, and numbers as arrays.
_ALIASES = re.compile(r"np_\w+|\w+_(kernels|shapes|composites)\w*|number_\d+")
_OWN = "operators"


def derived_names(name: str) -> set[str]:
    """Names that generated code makes from that of an argument or output."""
    return {form.format(name) for form in _DERIVED}


def check_arguments(function: NativeFunction) -> None:
    """Refuses an argument whose name generated code uses itself."""
    func = function.func
    has_arrays = "CPU" in function.dispatch
    taken = IN_KERNELS | _OF_NODES if has_arrays else IN_FUNCTIONS
    kernels = {v for key, v in function.dispatch.items() if key != "Dask"} - set(META_RULES)
    modules = {kernel.split(".")[0] for kernel in kernels} if has_arrays else ()
    names = [argument.name for argument in func.arguments.flat_non_out]
    made = set().union(*map(derived_names, names), {f"{func.name}_again"})
    for name in names:
        if keyword.iskeyword(name) or name.startswith("_"):
            raise CodegenError(f"the argument {name!r} of {func.name} is no name for a parameter")
        if name in taken or name in modules or name in made or _ALIASES.fullmatch(name):
            raise CodegenError(
                f"the argument {name!r} of {func.name} has a name that the generated code uses "
                f"itself; rename it"
            )


def kernel_names(package: Path) -> set[str]:
    """The functions of our own that tables may name; read from source, not imported."""
    found = set()
    for path in sorted((package / _OWN).rglob("*.py")):
        module = ".".join(path.relative_to(package).with_suffix("").parts)
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            found |= {f"{module}.{name}" for name in _defined(node)}
    return found


def _defined(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef):
        return [node.name]
    if isinstance(node, ast.ImportFrom):
        return [alias.asname or alias.name for alias in node.names]
    targets = node.targets if isinstance(node, ast.Assign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def check_kernels(functions: Iterable[NativeFunction], known: Collection[str]) -> None:
    """Refuse a kernel of NumPy or of our own that does not exist; others are not looked for."""
    for function in functions:
        for kernel in function.dispatch.values():
            top, _, rest = kernel.partition(".")
            if (top == "numpy" and not _in_numpy(rest)) or (top == _OWN and kernel not in known):
                hint = nearest(kernel, known)
                raise CodegenError(
                    f"{function.place}: {function.func.name} names the kernel {kernel!r}, which "
                    f"does not exist{hint}"
                )


def _in_numpy(path: str) -> bool:
    found: object = np
    for name in path.split("."):
        found = getattr(found, name, None)
    return callable(found)
