"""One entry of a table of operators, and how its schema and its formulas are read.

``load_ops`` reads our tables with it; a reader of another form (``tools/torchgen`` of the
repository has one) makes the same :class:`Entry`, so that ``derive`` works on either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pullback.codegen.load_yaml import Item, nearest
from pullback.errors import SchemaError, message_of
from pullback.schema import FunctionSchema, parse_schema

__all__ = ["AUTOGRAD_KEYS", "Entry", "formula_sections", "parse_func"]

_BACKENDS = (
    *("CPU", "CUDA", "HIP", "XLA", "MTIA", "MPS", "IPU", "XPU", "HPU", "VE", "Lazy", "Meta"),
    *("PrivateUse1", "PrivateUse2", "PrivateUse3"),
)
AUTOGRAD_KEYS = frozenset({"Default", "AutogradNestedTensor", *(f"Autograd{b}" for b in _BACKENDS)})
"""The keys that may have formulas of their own."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a table: the schema, formulas by autograd key and name, and output flags."""

    schema: Item
    sections: Mapping[str, Mapping[str, Item]]
    output_differentiability: Item | None


def parse_func(item: Item) -> FunctionSchema:
    """Parse the schema in a value; an error of the schema parser gets the place in the file."""
    try:
        return parse_schema(item.text("a schema"))
    except SchemaError as error:
        # The rest of the message draws the schema with a caret; the place in the file does that.
        raise item.error(message_of(error).splitlines()[0]) from None


def formula_sections(fields: dict[str, Item]) -> dict[str, dict[str, Item]]:
    """Sort formulas by autograd key: they stand by name, or in sections under ``dispatch``."""
    dispatch = fields.pop("dispatch", None)
    if dispatch is None:
        return {"Default": fields}
    for name, formula in fields.items():
        raise formula.key_error(
            f"{name!r} stands beside 'dispatch'; put it into one of the sections"
        )
    sections: dict[str, dict[str, Item]] = {}
    for key, section in dispatch.mapping("'dispatch'").items():
        if key not in AUTOGRAD_KEYS:
            raise section.key_error(f"Invalid dispatch key {key!r}{nearest(key, AUTOGRAD_KEYS)}")
        sections[key] = section.mapping(f"the section {key!r}")
    return sections
