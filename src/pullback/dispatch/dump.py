"""Tables and registrations as text, in PyTorch's layout; and the errors that quote them.

Called by error paths, ``PythonDispatcher`` and ``OpOverload.dispatch_table``; never by a call that
finds its kernel.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping

from pullback.dispatch.keys import FUNCTIONALITIES, RUNTIME_KEYS, DispatchKey
from pullback.dispatch.table import LOCK, Entry, OperatorEntry
from pullback.errors import DispatchError, KernelNotFoundError

__all__ = ["DispatchTable", "dump_registrations", "missing_kernel"]


class DispatchTable(Mapping[DispatchKey, Entry]):
    """The computed table of one operator, a snapshot: key to entry, printable.

    Keys without a kernel are left out.

    >>> import pullback as pb
    >>> table = pb.ops.pullback.sin.default.dispatch_table()
    >>> "CPU" in {key.name for key in table}
    True
    """

    def __init__(self, entry: OperatorEntry):
        with LOCK:  # a consistent state for the whole table
            computed = {key: entry.entry(key) for key in RUNTIME_KEYS}
        self._entries = {key: found for key, found in computed.items() if found.kernel is not None}

    def __getitem__(self, key: DispatchKey) -> Entry:
        return self._entries[key]

    def __iter__(self) -> Iterator[DispatchKey]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return "".join(
            f"{key.name}: {found.kernel} [{found.provenance}]\n"
            for key, found in self._entries.items()
        )

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{key.name}</td><td>{html.escape(str(found.kernel))}</td>"
            f"<td>{html.escape(found.provenance)}</td></tr>"
            for key, found in self._entries.items()
        )
        return f"<table><tr><th>key</th><th>kernel</th><th>from</th></tr>{rows}</table>"


def _registration_order(key: DispatchKey) -> tuple[bool, bool, int]:
    """Registrations print single keys first, then per-backend ones, then aliases."""
    return (key.is_alias, FUNCTIONALITIES.get(key.name, "per backend") is not None, key.value)


def dump_registrations(entry: OperatorEntry) -> str:
    """The registrations of an operator, with the kernels that a newer one hides."""
    with LOCK:
        return _dump(entry)


def _dump(entry: OperatorEntry) -> str:
    schema = "(none)" if entry.schema is None else str(entry.schema)
    lines = [f"name: {entry.name}", f"schema: {schema}"]
    if entry.schema is not None:
        lines += [f"debug: registered at {entry.location}", "alias analysis kind: FROM_SCHEMA"]
    for key in sorted(entry.kernels, key=_registration_order):
        label = f"{key.name}[alias]" if key.is_alias else key.name
        for age, kernel in enumerate(reversed(entry.kernels[key])):
            inactive = " (inactive)" if age else ""
            lines.append(f"{label}{inactive}: {kernel} :: {_signature(entry)}[ boxed unboxed ]")
    return "\n".join(lines) + "\n"


def _signature(entry: OperatorEntry) -> str:
    """The schema's types with numbered names, as PyTorch prints a kernel's own signature."""
    if entry.schema is None:
        return ""
    arguments = ", ".join(
        f"{argument.type} _{place}"
        for place, argument in enumerate(entry.schema.arguments.flat_all)
    )
    returns = ", ".join(f"{ret.type} _{place}" for place, ret in enumerate(entry.schema.returns))
    if len(entry.schema.returns) != 1:
        returns = f"({returns})"
    return f"({arguments}) -> {returns} "


def missing_kernel(entry: OperatorEntry, key: DispatchKey) -> DispatchError:
    """The error for a call that reached a key without a kernel."""
    if key is DispatchKey.Undefined:
        return KernelNotFoundError(
            f"{entry.name}: There were no tensor arguments to this function (an empty list of "
            f"tensors counts as none, and so does a call whose only key falls through), and no "
            f"fallback function is registered for schema {entry.schema}. Register a kernel to "
            f"CompositeExplicitAutograd or CompositeImplicitAutograd to serve such calls.\n\n"
            f"{DispatchTable(entry)!r}"
        )
    table = DispatchTable(entry)
    available = ", ".join(found.name for found in table) or "none"
    return KernelNotFoundError(
        f"Could not run '{entry.name}' with arguments from the '{key.name}' backend: the operator "
        f"has no kernel there. Register one with Library.impl({entry.name.split('::')[-1]!r}, fn, "
        f"{key.name!r}), or move the arguments to a backend that has one.\n"
        f"'{entry.name}' is available for: {available}\n\n{table!r}"
    )
