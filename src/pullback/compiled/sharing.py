"""Arguments that share memory with an array that the function writes to.

A graph has each argument as memory of its own. Where a write to one of them is seen in another, or
in a captured array, the function itself is called.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.fx.tracer import Tracer
from pullback.tensor.tensor import Tensor

__all__ = ["shares_written_memory"]


def shares_written_memory(tracer: Tracer, leaves: list[Any]) -> bool:
    """Whether a written argument shares memory with another one or with a captured array."""
    if not tracer.writes:
        return False
    nodes = tracer.graph.find_nodes(op="placeholder")
    given = [leaf._array if isinstance(leaf, Tensor) else leaf for leaf in leaves]
    arrays = [(node, a) for node, a in zip(nodes, given, strict=False) if type(a) is np.ndarray]
    captured = {n: tracer.captured[n.target] for n in tracer.graph.find_nodes(op="get_attr")}
    outside = [(node, array) for node, array in captured.items() if "root" in node.meta]
    for place, (node, array) in enumerate(arrays):
        for other, theirs in (*arrays[:place], *outside):
            is_written = tracer.written & {node.meta["root"], other.meta["root"]}
            if is_written and np.may_share_memory(array, theirs) and _share(array, theirs):
                return True
    return False


def _share(x: Any, y: Any) -> bool:
    """Whether two arrays have an element in common; true where that would take long to find out."""
    try:
        return bool(np.shares_memory(x, y, max_work=1000))  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True
