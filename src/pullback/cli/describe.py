"""``python -m pullback op NAME``: everything known about one operator."""

from __future__ import annotations

from typing import Any

from pullback.codegen.load_yaml import nearest
from pullback.dispatch import get_operator
from pullback.dispatch.explanation import describe_kernel
from pullback.errors import OperatorNotFoundError
from pullback.inspector.catalogue import catalogue

__all__ = ["describe_operator"]


def _find(name: str) -> dict[str, Any]:
    """The record of an operator, by qualified name, short name or public function."""
    records = catalogue()
    for wanted in (name, f"pullback::{name}"):
        if wanted in records:
            return records[wanted]
    for record in records.values():
        if record["function"] == name:
            return record
    known = [record["function"] for record in records.values()]
    raise OperatorNotFoundError(f"no built-in operator is called {name!r}{nearest(name, known)}")


def describe_operator(name: str) -> str:
    """Schema, formulas, saved values, variants, kernels and the dispatch table, as text.

    >>> print(describe_operator("multiply").splitlines()[0])
    pullback::mul(Tensor self, Tensor other) -> Tensor
    """
    record = _find(name)
    lines = [f"pullback::{record['schema']}", f"  {record['doc']}", ""]
    lines += [
        f"  function   pullback.{record['function']}",
        f"  kind       {record['kind']}{', view' if record['view'] else ''}",
        f"  table      {record['table']}",
        *(f"  kernel     {key}: {kernel}" for key, kernel in record["kernels"].items()),
    ]
    family = [r["schema"] for r in catalogue().values() if r["table"] == record["table"]]
    lines += [f"  family     {schema}" for schema in family if schema != record["schema"]]
    if "derivatives" in record:
        lines += ["", f"  backward   {record['node'] or 'no gradient'}"]
        lines += [f"    {names} = {text}" for names, text in record["derivatives"].items()]
        lines += [f"    {name}: not differentiable" for name in record["non_differentiable"]]
        lines.append(f"    saves {', '.join(record['saved']) or 'nothing'}")
        lines.append("  forward")
        lines += [f"    {names} = {text}" for names, text in record["forward"].items()]
    operator = get_operator(record["name"])
    lines += ["", "  dispatch table"]
    for key, entry in operator.dispatch_table().items():
        assert entry.kernel is not None
        lines.append(f"    {key.name:<16} {describe_kernel(entry.kernel)} [{entry.provenance}]")
    return "\n".join(lines)
