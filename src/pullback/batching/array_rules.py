"""The batching rules of all operators.

``RULES`` has a rule by an operator's name; ``rule_of_class`` makes the rule of an operator whose
class is known from its table. A rule that returns NotImplemented leaves the call to a loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.kernels.batch_axes import Rule
from pullback.kernels.batch_classes import elementwise, native, reduction
from pullback.operators.creation import kernels as creation
from pullback.operators.indexing import batching as indexing
from pullback.operators.linalg import batching as linalg
from pullback.operators.nn import batching as nn
from pullback.operators.nn import batching_images as images
from pullback.operators.pointwise import kernels as pointwise
from pullback.operators.products import batching as products
from pullback.operators.shape import batching as shape
from pullback.operators.sorting import batching as sorting

__all__ = ["RULES", "Rule", "rule_of_class"]

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
