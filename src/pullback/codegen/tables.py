"""``Tables``: all functions and all derivatives of tables that were read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pullback.codegen.match import match_differentiability_info
from pullback.codegen.model import (
    DifferentiabilityInfo,
    Infos,
    NativeFunctionWithDifferentiabilityInfo,
)
from pullback.codegen.native import NativeFunction, view_groups
from pullback.schema import FunctionSchema

__all__ = ["Tables", "view_copy_infos"]


@dataclass(frozen=True, slots=True)
class Tables:
    """All functions, generated ones included, and their derivatives.

    ``entries`` holds what the tables say, ``copies`` what the copying twins of views get from it.
    """

    functions: tuple[NativeFunction, ...]
    entries: Infos
    copies: Infos

    @property
    def infos(self) -> Infos:
        """All derivatives by schema and autograd key."""
        return self.entries | self.copies

    def match(self) -> list[NativeFunctionWithDifferentiabilityInfo]:
        """Find the derivatives of every function."""
        return match_differentiability_info(self.functions, self.infos)


def view_copy_infos(
    infos: Mapping[FunctionSchema, Mapping[str, DifferentiabilityInfo]],
    functions: Iterable[NativeFunction],
) -> Infos:
    """Give every view's copying twin the view's derivatives, unless it has its own."""
    groups = {group.view.func: group for group in view_groups(functions)}
    copies: Infos = {}
    for func, by_key in infos.items():
        group = groups.get(func)
        if group is None or group.view_copy is None or group.view_copy.func in infos:
            continue
        twins = {
            key: info.create_view_copy_from_view_derivative(group) for key, info in by_key.items()
        }
        copies[group.view_copy.func] = {key: twin for key, twin in twins.items() if twin}
    return copies
