"""Reader of ``derivatives.yaml``: the derivatives of PyTorch's two-file form.

Every entry refers to a function of ``native_functions.yaml`` by its full schema.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence

from pullback.codegen.derive import derive
from pullback.codegen.entry import Entry, formula_sections
from pullback.codegen.load_yaml import Item, load_yaml, nearest
from pullback.codegen.model import Infos
from pullback.codegen.native import NativeFunction
from pullback.codegen.tables import Tables, view_copy_infos
from pullback.errors import CodegenError
from pullback.schema import FunctionSchema
from tools.torchgen.cpp import CPP
from tools.torchgen.load_native import load_native_functions

__all__ = ["derivative_infos", "load_tables"]


def load_tables(
    native_functions: str | os.PathLike[str],
    derivatives: str | os.PathLike[str],
    tags: str | os.PathLike[str] | None = None,
) -> Tables:
    """Read PyTorch's two files (and its tag file, to check tags) into functions and derivatives."""
    functions = load_native_functions(native_functions, tags)
    entries = derivative_infos(load_yaml(derivatives), functions)
    return Tables(tuple(functions), entries, view_copy_infos(entries, functions))


def derivative_infos(table: Item, functions: Sequence[NativeFunction]) -> Infos:
    """Read a list of derivative entries for functions that are already known."""
    by_schema = {str(f.func): f for f in functions}
    by_signature: dict[FunctionSchema, list[NativeFunction]] = {}
    for function in functions:
        by_signature.setdefault(function.func.signature(), []).append(function)
    counter: Counter[str] = Counter()
    infos: Infos = {}
    seen: dict[FunctionSchema, Item] = {}
    for each in table.sequence("the table"):
        entry = _entry(each)
        declared = by_schema.get(entry.schema.text())
        if declared is None:
            raise _unknown_schema(entry.schema, functions)
        function = _canonical(entry.schema, declared, by_signature[declared.func.signature()])
        if function.func in seen:
            first = seen[function.func].place()
            raise entry.schema.error(f"{function.func.name} has an entry already, at {first}")
        seen[function.func] = entry.schema
        infos[function.func] = derive(entry, function, CPP, counter)
    return infos


def _entry(item: Item) -> Entry:
    fields = item.mapping("an entry")
    schema = fields.pop("name", None)
    if schema is None:
        raise item.error("an entry needs the schema of its function under the key 'name'")
    schema.text("'name'")
    flags = fields.pop("output_differentiability", None)
    return Entry(schema, formula_sections(fields), flags)


def _canonical(
    schema: Item, declared: NativeFunction, family: Sequence[NativeFunction]
) -> NativeFunction:
    """Choose the function of the family that the formulas are about."""
    name = str(declared.func.name.name)
    for function in family:
        func = function.func
        if str(func.name.name) == name and not func.is_out_fn() and not func.is_functional_fn():
            return function
    for function in family:
        if function.func.name.name.inplace:
            return function
    raise schema.error(
        f"{declared.func.name} is neither functional nor in-place, and its family has no such "
        "function that the formulas could be about"
    )


def _unknown_schema(schema: Item, functions: Sequence[NativeFunction]) -> CodegenError:
    name = schema.text().partition("(")[0].partition(".")[0]
    same = [str(f.func) for f in functions if str(f.func.name.name) == name]
    names = {str(f.func.name.name) for f in functions}
    hint = f"; available: {' | '.join(same)}" if same else nearest(name, names)
    return schema.error(f"could not find a function for schema: {schema.text()}{hint}")
