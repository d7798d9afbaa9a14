"""Guards on values that decide about the shape of a result, or whether a call raises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pullback.dispatch.table import ENTRIES
from pullback.fx.node import map_aggregate
from pullback.fx.refusals import read_error
from pullback.fx.traced_array import TracedArray
from pullback.fx.user_code import user_line
from pullback.tensor.tensor import Tensor

if TYPE_CHECKING:
    from pullback.fx.tracer import Tracer

__all__ = ["guard_error", "guard_sizes"]

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


def guard_error(tracer: Tracer, error: Exception, values: tuple[Any, ...]) -> None:
    """Makes the arguments of a call that raises guards of the graph.

    The program may catch the error, as in ``try: np.linalg.cholesky(a)``, and its graph has what
    comes then. Indices decide about a LookupError, all values about others.
    """
    if not isinstance(error, ArithmeticError | LookupError | ValueError):
        return
    what = f"a call raises {type(error).__name__}"
    if not tracer.allows_reads:
        read_error(what, user_line())  # the tracer raises it at its end, if the program goes on
        return

    def guard(value: Any) -> None:
        if hasattr(value, "__pullback_operand__"):
            tracer.read_number(value, what)
        elif isinstance(value, Tensor):
            held = value._array
            if isinstance(error, LookupError) and value.dtype.kind not in "bui":
                return
            held = tracer.lift(held, value) if isinstance(held, np.ndarray) else held
            if isinstance(held, TracedArray):
                tracer.guard(held, what)

    map_aggregate(values, guard)
