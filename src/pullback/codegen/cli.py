"""The command ``python -m pullback codegen``; the package's own command line calls :func:`main`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from pullback.codegen.emit.catalogue import operator_functions
from pullback.codegen.emit.files import (
    METHOD_STUBS,
    changed_files,
    formula_functions,
    generate,
    write_files,
)
from pullback.codegen.emit.format import can_format, format_files
from pullback.codegen.families import builtin_tables, family_of, on_demand_tables
from pullback.codegen.names import kernel_names
from pullback.codegen.python_dialect import Arity
from pullback.errors import CodegenError, message_of

__all__ = ["main"]

_PACKAGE = Path(__file__).resolve().parents[1]


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return 0, 1 if a check found drift, or 2 after a message about bad input."""
    parser = _parser()
    options = parser.parse_args(argv)
    for table in options.tables:
        if Path(table).suffix not in (".yaml", ".yml"):
            parser.error(f"{table!r} is no YAML table")
    try:
        return _generate(options)
    except CodegenError as error:
        print(f"error: {message_of(error)}", file=sys.stderr)
        return 2


def _generate(options: argparse.Namespace) -> int:
    if not can_format() and (options.check or not options.tables):
        raise CodegenError(
            f"{'the check' if options.check else 'the source of the built-in operators'} needs "
            "ruff, which formats the source: pip install ruff"
        )
    functions = formula_functions()
    catalogue = _PACKAGE / "_generated" / "catalogue.json"
    if options.tables:
        if not options.output:
            raise CodegenError("name the folder for tables of your own: -o my_package/_ops")
        output = Path(options.output)
        tables = [Path(table) for table in options.tables]
        known = functions | operator_functions(catalogue)
        return _write(options, tables, output, known, options.namespace or output.parent.name)
    output = Path(options.output) if options.output else _PACKAGE / "_generated"
    status = _write(options, builtin_tables(), output, functions)
    functions |= operator_functions(catalogue)
    for table in on_demand_tables():
        status |= _write(options, [table], output / family_of(table), functions, on_demand=True)
    return status


def _write(
    options: argparse.Namespace,
    tables: list[Path],
    output: Path,
    functions: Mapping[str, Arity | None],
    namespace: str = "pullback",
    *,
    on_demand: bool = False,
) -> int:
    """Writes, or checks, the package that some tables make together."""
    known = kernel_names(_PACKAGE)
    files = generate(
        tables, functions=functions, kernels=known, namespace=namespace, on_demand=on_demand
    )
    if on_demand:
        files.pop(METHOD_STUBS)  # methods of Tensor belong to the built-in tables
    files = format_files(files)
    drifted = changed_files(files, output)
    if options.check:
        for name in drifted:
            print(f"{name} is not what its table says; run `python -m pullback codegen`")
        return 1 if drifted else 0
    write_files(files, output, drifted)
    print(f"{len(files)} files from {len(tables)} tables, {len(drifted)} of them changed")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pullback codegen",
        description="Write the source of operators from their tables.",
    )
    parser.add_argument(
        "tables", nargs="*", metavar="TABLE", help="YAML tables; the built-in ones unless given"
    )
    parser.add_argument("-o", "--output", help="the folder to write to, a package of its own")
    parser.add_argument(
        "--namespace", help="of the operators, as in ns::op; the folder's parent unless given"
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 on any change")
    return parser
