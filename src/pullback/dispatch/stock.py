"""Built-in operators: defined from the text of generated source, at little cost.

Importing the package defines hundreds of operators. Their schemas are parsed when they
are first read; calls go through generated functions that do not need them. Their kernels are
imported with the first call, table by table.
"""

from __future__ import annotations

from collections.abc import Collection

from pullback.dispatch import registry
from pullback.dispatch.table import LOCK, OperatorEntry

__all__ = ["forget_operators", "stock_operator"]

_handles: dict[str, registry.RegistrationHandle] = {}


def stock_operator(schema: str, source: str, tags: tuple[str, ...] = ()) -> OperatorEntry:
    """Defines an operator from its full text, until ``forget_operators``.

    Importing the module `source` registers its kernels. Of the tags in a table, operators have
    those that programs read while they run.
    """
    name = schema.partition("(")[0]
    with LOCK:
        _handles[name] = registry.define(schema, name, "a generated module", tags)
        entry = registry.find(name)
        assert entry is not None
        entry.source = source
    return entry


def forget_operators(namespace: str, names: Collection[str] | None = None) -> None:
    """Ends the operators of a namespace that came from generated source, or some of them."""
    with LOCK:
        mine = [name for name in _handles if name.startswith(f"{namespace}::")]
        for name in [name for name in mine if names is None or name in names]:
            entry = registry.find(name)
            if entry is not None:
                entry.empty()
            _handles.pop(name).destroy()
