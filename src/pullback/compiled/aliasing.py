"""Arguments that share memory with an array that the function writes to.

A graph has each argument as memory of its own. Where a write to one of them is seen in another, or
in a captured array, also one whose elements are constants, the function itself is called.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from pullback.fx.tracer import Tracer
from pullback.tensor.tensor import Tensor

__all__ = ["shares_written_memory"]


class _Roots(NamedTuple):
    """The memory of arguments, in their order, and of captured arrays, by name."""

    arguments: list[int | None]
    captured: list[tuple[str, int]]


_roots: WeakKeyDictionary[Tracer, _Roots] = WeakKeyDictionary()  # a graph has many nodes


def _roots_of(tracer: Tracer) -> _Roots:
    found = _roots.get(tracer)
    if found is None:
        arguments = [n.meta.get("root") for n in tracer.graph.find_nodes(op="placeholder")]
        nodes = tracer.graph.find_nodes(op="get_attr")
        captured = [(n.target, n.meta["root"]) for n in nodes if "root" in n.meta]
        found = _roots[tracer] = _Roots(arguments, captured)
    return found


def shares_written_memory(tracer: Tracer, leaves: list[Any]) -> bool:
    """Whether a written argument shares memory with another one or with a captured array."""
    written = tracer.written
    if not tracer.writes:
        return False
    roots = _roots_of(tracer)
    given = [leaf._array if isinstance(leaf, Tensor) else leaf for leaf in leaves]
    pairs = zip(roots.arguments, given, strict=False)
    arrays = [(root, array) for root, array in pairs if type(array) is np.ndarray]
    outside: list[tuple[int | None, Any]] = [(None, x) for x in tracer.snapshots.compared]
    outside += [(root, tracer.captured[name]) for name, root in roots.captured]
    for place, (root, array) in enumerate(arrays):
        for other, theirs in (*arrays[:place], *outside):
            is_written = root in written or other in written
            if is_written and np.may_share_memory(array, theirs) and _share(array, theirs):
                return True
    return False


def _share(x: Any, y: Any) -> bool:
    """Whether two arrays have an element in common; true where that would take long to find out."""
    try:
        return bool(np.shares_memory(x, y, max_work=1000))  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True
