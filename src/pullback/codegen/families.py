"""Families of operators: where their tables are, and what names in these tables stand for.

The folder ``operators/<family>/`` has the table of a family (``table.yaml``) and the modules that
the table names: ``kernels.softmax`` in ``operators/nn/activation/table.yaml`` is the function
``pullback.operators.nn.activation.kernels.softmax``. A function of another family is named with its
folder: ``operators.products.kernels.matmul``. The family of a table outside the package is the
file's name; such a table names modules in full.
"""

from __future__ import annotations

from pathlib import Path

__all__ = [
    "OPERATORS",
    "builtin_tables",
    "family_of",
    "formula_modules",
    "module_alias",
    "on_demand_tables",
    "resolve",
    "table_name",
]

OPERATORS = Path(__file__).resolve().parents[1] / "operators"
_ON_DEMAND = frozenset({"scipy_special"})  # families that are loaded when first used
_TABLE = "table.yaml"
_ROLES = ("kernels", "shapes", "composites")


def builtin_tables() -> list[Path]:
    """The tables of the families that the package always has."""
    tables = sorted(OPERATORS.rglob(_TABLE), key=family_of)
    return [table for table in tables if family_of(table) not in _ON_DEMAND]


def on_demand_tables() -> list[Path]:
    """The tables of the families that are loaded when they are first used."""
    return [OPERATORS / family / _TABLE for family in sorted(_ON_DEMAND)]


def formula_modules() -> list[Path]:
    """The modules with functions that formulas may call."""
    return sorted(OPERATORS.rglob("formulas*.py"))


def _folder(table: str | Path) -> tuple[str, ...] | None:
    """The folders of a table below that of all families; None of a table outside the package."""
    folder = Path(table).resolve().parent
    is_own = Path(table).name == _TABLE and folder.is_relative_to(OPERATORS)
    return folder.relative_to(OPERATORS).parts if is_own else None


def family_of(table: str | Path) -> str:
    """The family's name in the names of generated modules.

    >>> family_of(OPERATORS / "nn" / "loss" / "table.yaml"), family_of("my_ops.yaml")
    ('nn_loss', 'my_ops')
    """
    folder = _folder(table)
    return Path(table).stem if folder is None else "_".join(folder)


def table_name(table: str | Path) -> str:
    """A table's name in messages and documents.

    >>> table_name(OPERATORS / "nn" / "loss" / "table.yaml"), table_name("home/my_ops.yaml")
    ('operators/nn/loss/table.yaml', 'my_ops.yaml')
    """
    folder = _folder(table)
    return Path(table).name if folder is None else "/".join(("operators", *folder, _TABLE))


def resolve(kernel: str, table: str | Path) -> str:
    """The full name of a function that a table names; in the package, from its own folder on.

    >>> resolve("kernels.softmax", OPERATORS / "nn" / "activation" / "table.yaml")
    'operators.nn.activation.kernels.softmax'
    >>> resolve("numpy.sin", OPERATORS / "pointwise" / "table.yaml")
    'numpy.sin'
    """
    folder = _folder(table)
    module, _, name = kernel.rpartition(".")
    if folder is None or "." in module or not name or not module.startswith(_ROLES):
        return kernel
    return ".".join(("operators", *folder, module, name))


def module_alias(module: str) -> str:
    """The name under which generated source imports a module of a family.

    >>> module_alias("operators.nn.activation.kernels")
    'nn_activation_kernels'
    """
    return module.removeprefix("operators.").replace(".", "_")
