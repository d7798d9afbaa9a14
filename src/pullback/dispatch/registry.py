"""The process-wide registry: which operators exist, with which kernels, and how to undo each step.

Every change is one function here. It validates first and changes second, under the lock, so that a
refused registration leaves the registry as it was; it returns a handle whose ``destroy`` undoes
exactly that step. Libraries (``library.py``) are the public interface; calls do not use this
module.
"""

from __future__ import annotations

import linecache
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Self

from pullback._lazy import lazy_module
from pullback.dispatch.caller import log_replaced, same_place
from pullback.dispatch.keys import DispatchKey
from pullback.dispatch.operator import OpOverload, OpOverloadPacket
from pullback.dispatch.table import ENTRIES, LOCK, Kernel, OperatorEntry
from pullback.errors import RegistrationError

if TYPE_CHECKING:
    from pullback.dispatch import calling, dump
    from pullback.errors import DispatchError
    from pullback.schema import FunctionSchema
else:
    calling = lazy_module("pullback.dispatch.calling")
    dump = lazy_module("pullback.dispatch.dump")

__all__ = [
    "RegistrationHandle",
    "all_entries",
    "check_undefined",
    "claim_namespace",
    "define",
    "destroy_all",
    "fallbacks",
    "find",
    "find_packet",
    "implement",
    "namespace_operators",
    "register_fallback",
    "replace_same_place",
]

_packets: dict[str, OpOverloadPacket] = {}
_fallbacks: dict[DispatchKey, Kernel] = {}
# namespace -> where its DEF library was made, and what it has registered
_definers: dict[str, tuple[str, dict[RegistrationHandle, None]]] = {
    "pullback": ("the tables of built-in operators", {})
}
_override_warned = False


class RegistrationHandle:
    """Undoes one registration: by ``destroy()``, or at the end of a ``with`` block."""

    def __init__(self, undo: Callable[[], None]):
        self._undo: Callable[[], None] | None = undo
        self._owner: dict[RegistrationHandle, None] | None = None

    def belong_to(self, owner: dict[RegistrationHandle, None]) -> RegistrationHandle:
        """Adds itself to `owner`, the handles that a library destroys at its end."""
        self._owner = owner
        owner[self] = None
        return self

    def destroy(self) -> None:
        """Undoes the registration. A second call does nothing."""
        with LOCK:
            undo, self._undo = self._undo, None
            if self._owner is not None:
                self._owner.pop(self, None)
            if undo is not None:
                undo()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.destroy()


def destroy_all(handles: dict[RegistrationHandle, None]) -> None:
    """Undoes registrations, newest first: kernels go before the definition that they serve."""
    with LOCK:
        while handles:
            handles.popitem()[0].destroy()


def find(name: str) -> OperatorEntry | None:
    """The entry of a qualified name such as ``ns::op.overload``, dangling ones included."""
    return ENTRIES.get(name)


def all_entries() -> list[OperatorEntry]:
    """Every entry, in the order in which their names first appeared."""
    with LOCK:
        return list(ENTRIES.values())


def fallbacks() -> dict[DispatchKey, Kernel]:
    """The global fallback of each key that has one."""
    with LOCK:
        return dict(_fallbacks)


def claim_namespace(
    namespace: str, location: str, handles: dict[RegistrationHandle, None]
) -> RegistrationHandle:
    """Makes one library the only DEF library of a namespace; `handles` is all that it registers."""
    with LOCK:
        present, registered = _definers.get(namespace, ("", {}))
        if present and same_place(present, location):
            log_replaced(f"the library of {namespace!r}", location)
            destroy_all(registered)
        elif present:
            raise RegistrationError(
                f"Only a single TORCH_LIBRARY (a library of kind 'DEF') can define the namespace "
                f"{namespace!r} at a time, and one exists already, made at "
                f"{present}. Use kind 'FRAGMENT' to add operators to it."
            )
        _definers[namespace] = (location, handles)
        return RegistrationHandle(lambda: _release_namespace(namespace))


def _release_namespace(namespace: str) -> None:
    del _definers[namespace]


def check_undefined(schema: FunctionSchema | str, name: str) -> None:
    """Refuses a second definition of an operator."""
    entry = ENTRIES.get(name)
    if entry is not None and entry.is_defined:
        raise RegistrationError(
            f"Tried to register an operator ({schema}) with the same name and overload name "
            f"multiple times: {name} is defined already, at {entry.location}. Destroy the "
            f"library that defined it first, or choose another name or overload."
        )


def replace_same_place(name: str, location: str) -> None:
    """Ends an older definition of the operator from the same line of code."""
    entry = ENTRIES.get(name)
    if entry is None or not entry.is_defined or not same_place(entry.location, location):
        return
    log_replaced(name, location)
    assert entry.definition is not None, "a defined operator has the handle of its definition"
    entry.definition.destroy()
    left = ENTRIES.get(name)
    if left is not None:  # its kernels belong to the older run of the same lines
        left.empty()
        del ENTRIES[name]


def define(
    schema: FunctionSchema | str, name: str, location: str, tags: tuple[str, ...] = ()
) -> RegistrationHandle:
    """Defines an operator; kernels that came before it become reachable."""
    with LOCK:
        check_undefined(schema, name)
        entry = ENTRIES.get(name) or _new_entry(name)
        entry.declaration = schema
        entry.location = location
        entry.tags = tags
        packet = _packet(name)
        entry.operator = OpOverload(entry, packet)
        packet._add(entry.operator)
        entry.invalidate()
        handle = entry.definition = RegistrationHandle(lambda: _undefine(entry))
        return handle


def find_packet(name: str) -> OpOverloadPacket | None:
    """The defined overloads of a qualified name without overload, such as ``ns::op``."""
    return _packets.get(name)


def namespace_operators(namespace: str) -> list[str]:
    """The names defined in a namespace."""
    with LOCK:
        return [name.split("::")[1] for name in _packets if name.startswith(namespace + "::")]


def _packet_name(name: str) -> str:
    return name.partition(".")[0]


def _packet(name: str) -> OpOverloadPacket:
    base = _packet_name(name)
    if base not in _packets:
        _packets[base] = OpOverloadPacket(base)
    return _packets[base]


def _new_entry(name: str) -> OperatorEntry:
    entry = ENTRIES[name] = OperatorEntry(name, _fallbacks, _missing_kernel)
    return entry


def _missing_kernel(entry: OperatorEntry, key: DispatchKey) -> DispatchError:
    return dump.missing_kernel(entry, key)


def _undefine(entry: OperatorEntry) -> None:
    """Ends a definition. The dead entry keeps no kernel, so old references to the operator raise;
    kernels of other libraries move to a fresh, dangling entry."""
    del ENTRIES[entry.name]
    packet = entry.operator.overloadpacket
    packet._discard(entry.operator)
    if not packet.overloads():
        del _packets[_packet_name(entry.name)]
    if entry.kernels:
        _new_entry(entry.name).fill(entry.kernels)
    entry.declaration = None
    entry.definition = None
    linecache.cache.pop(calling.source_name(entry.name), None)
    entry.empty()


def implement(name: str, kernel: Kernel) -> RegistrationHandle:
    """Puts a kernel on top of the stack of its key; the operator may be defined later."""
    with LOCK:
        entry = ENTRIES.get(name)
        below = entry.kernels.get(kernel.key) if entry is not None else None
        if below and kernel.key is not DispatchKey.Meta:
            _warn_override(name, kernel, below[-1])
        (entry or _new_entry(name)).add(kernel)
        return RegistrationHandle(lambda: _discard(name, kernel))


def _discard(name: str, kernel: Kernel) -> None:
    entry = ENTRIES.get(name)
    if entry is None:  # another run of the same lines has replaced the operator
        return
    entry.discard(kernel)
    if not entry.kernels and not entry.is_defined:
        del ENTRIES[name]


def _warn_override(name: str, kernel: Kernel, below: Kernel) -> None:
    global _override_warned
    if _override_warned:
        return
    _override_warned = True
    file, _, line = kernel.location.rpartition(":")
    warnings.warn_explicit(
        f"Overriding a previously registered kernel for the same operator and the same dispatch "
        f"key: {name} at {kernel.key.name}, previously {below}, now {kernel}. The older kernel "
        f"comes back when the newer one is destroyed. This is said once per process.",
        UserWarning,
        file,
        int(line),
    )


def register_fallback(kernel: Kernel) -> RegistrationHandle:
    """Makes a kernel the fallback of its key for every operator."""
    with LOCK:
        present = _fallbacks.get(kernel.key)
        if present is not None:
            raise RegistrationError(
                f"Tried to register multiple backend fallbacks for the same dispatch key "
                f"{kernel.key.name}; the present one is {present}. Destroy its library first."
            )
        _fallbacks[kernel.key] = kernel
        _invalidate_all()
        return RegistrationHandle(lambda: _remove_fallback(kernel.key))


def _remove_fallback(key: DispatchKey) -> None:
    del _fallbacks[key]
    _invalidate_all()


def _invalidate_all() -> None:
    for entry in list(ENTRIES.values()):
        entry.invalidate()
