"""The rules of operators for the blocks of dask arrays, as the tables of operators name them.

An entry of a table has its rule as ``Dask`` under ``dispatch``: a word such as ``matrix``, a word
with arguments such as ``along(axis)``, or a function of a module in this folder, such as
``by_hand.reshape``. Operators that are tagged `elementwise` need none. An operator without a rule
gathers its operands in one task.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback._generated.dask_rules import DASK_RULES
from pullback.batching.rules import class_of
from pullback.dask import by_hand, picking, products
from pullback.dask.array import DaskArray
from pullback.dask.plans import (
    Rule,
    along,
    batch,
    batch_sum,
    elementwise,
    trailing,
    whole_second,
)

__all__ = ["make_rule", "rule_of"]

_WORDS: dict[str, Rule] = {
    "elementwise": elementwise,
    "matrix": trailing(2),
    "whole_second": whole_second,
}
_WITH_ARGUMENTS: dict[str, Callable[..., Rule]] = {
    "along": along,
    "batch": batch,
    "batch_sum": batch_sum,
    "trailing": trailing,
}
_MODULES = {"by_hand": by_hand, "picking": picking, "products": products}


def make_rule(words: tuple[str | int, ...]) -> Rule:
    """The rule that a table names, by its word and what stands in parentheses."""
    word, arguments = str(words[0]), words[1:]
    if arguments:
        return _WITH_ARGUMENTS[word](*arguments)
    module, _, name = word.rpartition(".")
    if not module:
        return _WORDS[word]
    found: Rule = getattr(_MODULES[module], name)
    return _with_lazy_operand(found) if module == "by_hand" else found


def _with_lazy_operand(by_hand_rule: Rule) -> Rule:
    """Rules by hand take a dask array, or a list of tensors, as their first operand."""

    def rule(call: Any) -> Any:
        first = call.args[0]
        held = getattr(first, "_array", None)
        if not isinstance(first, list | tuple) and not isinstance(held, DaskArray):
            return None
        return by_hand_rule(call)

    return rule


def rule_of(operator: Any, name: str) -> Rule | None:
    """The rule of an operator, if there is one."""
    words = DASK_RULES.get(name) if operator.namespace == "pullback" else None
    if words is not None:
        return make_rule(words)
    return elementwise if class_of(operator.name()) == "elementwise" else None
