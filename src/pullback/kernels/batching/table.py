"""The batching rules of all operators.

``RULES`` has a rule by an operator's name; ``rule_of_class`` makes the rule of an operator whose
class is known from its table. A rule that returns NotImplemented leaves the call to a loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.kernels import creation, pointwise
from pullback.kernels.batching import images, indexing, linalg, nn, products, shape, sorting
from pullback.kernels.batching.axes import Rule
from pullback.kernels.batching.classes import elementwise, native, reduction

__all__ = ["RULES", "rule_of_class"]

RULES: dict[str, Rule] = {
    **images.RULES,
    **indexing.RULES,
    **linalg.RULES,
    **nn.RULES,
    **products.RULES,
    **shape.RULES,
    **sorting.RULES,
    "real": native(pointwise.real),
    "imag": native(pointwise.imag),
    "view_as_real": native(pointwise.view_as_real),
    "zeros_like": native(creation.zeros_like),
    "ones_like": native(creation.ones_like),
}


def rule_of_class(kind: str, name: str, function: Callable[..., Any]) -> Rule:
    """The rule of an operator of a class, which computes with `function` on arrays."""
    return reduction(name, function) if kind == "reduction" else elementwise(function)
