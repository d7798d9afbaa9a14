"""The catalogue: everything the tables know of every operator, as JSON for documents and tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pullback.codegen.emit.functions import public_name
from pullback.codegen.emit.model import Emitted
from pullback.codegen.families import family_of, table_name
from pullback.codegen.python_dialect import Arity

__all__ = ["emit_catalogue", "operator_functions"]


def emit_catalogue(ops: list[Emitted], namespace: str) -> str:
    """The catalogue of some operators, one line each."""
    lines = [json.dumps(_record(op, namespace), ensure_ascii=False) for op in ops]
    return "[\n" + ",\n".join(lines) + "\n]\n"


def operator_functions(catalogue: Path) -> dict[str, Arity | None]:
    """The built-in operators, as functions that the formulas of other tables may call."""
    records = json.loads(catalogue.read_text(encoding="utf-8"))
    return {record["name"].split("::")[1].replace(".", "_"): None for record in records}


def _record(op: Emitted, namespace: str) -> dict[str, Any]:
    place = op.function.place
    info = op.matched.info["Default"] if op.matched.info else None
    record: dict[str, Any] = {
        "name": f"{namespace}::{op.schema.name}",
        "schema": str(op.schema),
        "kind": op.schema.kind().value,
        "function": public_name(op),
        "variants": sorted(op.function.variants),
        "doc": op.function.doc,
        "tags": sorted(op.function.tags),
        "table": f"{table_name(place.file)}:{place.line}" if place else None,
        "family": family_of(place.file) if place else None,
        "kernels": dict(op.function.dispatch),
        "view": op.is_view,
        "step": op.matched.step,
        "exact": op.matched.exact,
    }
    if info is not None:
        record["node"] = info.op
        record["derivatives"] = {
            ", ".join(d.var_names): d.original_formula for d in info.derivatives
        }
        record["forward"] = {
            ", ".join(f.var_names): f.original_formula for f in info.forward_derivatives
        }
        record["saved"] = [s.name for s in (*info.all_saved_inputs, *info.all_saved_outputs)]
        record["non_differentiable"] = list(info.non_differentiable_arg_names)
    return record
