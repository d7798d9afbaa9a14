"""One namespace of operators, as an object with attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pullback._lazy import lazy_module
from pullback.dispatch import OpOverloadPacket, registry
from pullback.errors import OperatorNotFoundError

if TYPE_CHECKING:
    import difflib
else:
    difflib = lazy_module("difflib")

__all__ = ["OpNamespace"]


class OpNamespace:
    """The operators of one namespace, as attributes."""

    def __init__(self, name: str):
        self.name = name

    def __getattr__(self, name: str) -> OpOverloadPacket:
        found = registry.find_packet(f"{self.name}::{name}")
        if found is not None:
            return found
        defined = registry.namespace_operators(self.name)
        near = difflib.get_close_matches(name, defined, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise OperatorNotFoundError(f"no operator {self.name}::{name} is defined.{hint}")

    def __reduce__(self) -> tuple[type[OpNamespace], tuple[str]]:
        return OpNamespace, (self.name,)

    def __dir__(self) -> list[str]:
        return registry.namespace_operators(self.name)

    def __repr__(self) -> str:
        return f"<OpNamespace {self.name!r}: {len(dir(self))} operators>"
