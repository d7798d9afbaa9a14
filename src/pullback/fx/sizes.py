"""Guards on values that decide about the shape of a result: a graph has fixed shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pullback.dispatch.table import ENTRIES
from pullback.tensor.tensor import Tensor

if TYPE_CHECKING:
    from pullback.fx.tracer import Tracer

__all__ = ["guard_sizes"]

_BY_COUNT = frozenset(["argwhere", "flatnonzero"])  # of elements that are not zero
_BY_VALUES = frozenset(
    ["bincount", "unique_all", "unique_counts", "unique_dim", "unique_inverse", "unique_values"]
)


def guard_sizes(tracer: Tracer, operator: Any, args: tuple[Any, ...]) -> None:
    """Makes what decides about the shapes of a call's results guards of the graph.

    ``x * len(np.flatnonzero(x))`` is right for one number of elements. Python may read the shape at
    any time, so each call counts that has such results: by the number of elements that a mask
    selects, or by all values where no number says it.
    """
    if not tracer.keeps_guards:
        return
    name = operator.name().removeprefix("pullback::")
    if name == "index":
        masks = [x for x in args[1] if isinstance(x, Tensor) and x.dtype.kind == "b"]
    else:
        masks = [args[0]] if name in _BY_COUNT and isinstance(args[0], Tensor) else []
    for mask in masks:
        count = tracer.record(ENTRIES["pullback::count_nonzero"].operator, (mask,), {})
        tracer.guard(count._array, "the number of selected elements")
    if name in _BY_VALUES and isinstance(args[0], Tensor):
        values = tracer.record(ENTRIES["pullback::clone"].operator, (args[0],), {})
        tracer.guard(values._array, f"{name}()")
