"""One namespace of operators, as an object with attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pullback._lazy import lazy_module
from pullback.dispatch import OpOverload, OpOverloadPacket, registry
from pullback.errors import OperatorNotFoundError

if TYPE_CHECKING:
    import difflib

    from pullback.inspector import html_repr
else:
    difflib = lazy_module("difflib")
    html_repr = lazy_module("pullback.inspector.html_repr")

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


def _operator_html(self: OpOverload) -> str:
    """The form of an operator in notebooks."""
    return html_repr.operator_html(self)


def _overloads_html(self: OpOverloadPacket) -> str:
    """The form of a name's operators in notebooks."""
    return html_repr.overloads_html(self)


# The dispatcher itself imports nothing but schemas.
_FORMS: tuple[tuple[Any, Any], ...] = (
    (OpOverload, _operator_html),
    (OpOverloadPacket, _overloads_html),
)
for _class, _form in _FORMS:
    _class._repr_html_ = _form
