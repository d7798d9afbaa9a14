"""The forward formulas of operators, by name: for those who run them on something but tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pullback.dispatch.table import OperatorEntry

__all__ = ["FORWARD", "ForwardFormula"]


class ForwardFormula(NamedTuple):
    """How an operator changes with its arguments.

    Attributes:
        jvp: the forward formula, a function of a namespace, all arguments, the tangents of those at
            `places`, and the results; None if there is none.
        places: the positions of the arguments that may have tangents.
        sums: whether the formula leaves out arguments whose tangent is None.
        refused: positions of arguments without a derivative, each with the name of what is missing.
        is_constant: whether nothing is ever recorded, so that no result has a tangent.
    """

    entry: OperatorEntry
    jvp: Callable[..., Any] | None
    places: tuple[int, ...]
    sums: bool
    refused: tuple[tuple[int, str], ...]
    is_constant: bool

    def arity(self) -> int:
        """The number of arguments."""
        return len(self._arguments())

    def is_simple(self) -> bool:
        """Whether one tensor comes out, and none goes in but those at `places`, no lists either."""
        assert self.entry.schema is not None
        arguments = enumerate(self._arguments())
        kinds = {p: str(each.type) for p, each in arguments if each.type.is_tensor_like()}
        returns = [str(each.type) for each in self.entry.schema.returns]
        wanted = dict.fromkeys(self.places, "Tensor")
        return kinds == wanted and returns == ["Tensor"] and not self.refused

    def bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """The arguments of a call in the formula's order, defaults included."""
        values = list(args)
        for argument in self._arguments()[len(args) :]:
            name = argument.name
            values.append(kwargs[name] if name in kwargs else argument.default_value())
        return values

    def _arguments(self) -> Sequence[Any]:
        assert self.entry.schema is not None  # read when needed, so that importing reads no schema
        return self.entry.schema.arguments.flat_all


FORWARD: dict[str, ForwardFormula] = {}  # by the names of operators; filled as tables are loaded
