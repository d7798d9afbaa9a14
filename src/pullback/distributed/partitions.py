"""Partitions of a data set: what users pass, as a list that tasks can be made of.

Collections of dask are known by the protocol that they follow (``to_delayed``,
``__dask_graph__``), and its futures by the module of their class, so that dask is imported only
where there is something of it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pullback._lazy import lazy_module
from pullback.errors import AutogradTypeError, AutogradValueError

if TYPE_CHECKING:
    import dask
else:
    dask = lazy_module("dask")

__all__ = ["PrivateGraph", "is_delayed", "is_future", "partition_list", "private_graphs"]


def partition_list(name: str, partitions: Any) -> list[Any]:
    """The partitions in order; those of a dask collection are delayed objects."""
    if hasattr(partitions, "to_delayed"):  # bag, dataframe, array
        found = np.asarray(partitions.to_delayed(), dtype=object).ravel().tolist()
    elif isinstance(partitions, str | bytes | Mapping) or not isinstance(partitions, Iterable):
        raise AutogradTypeError(
            f"{name}: partitions must be a list of paths, keys, arrays, futures or delayed "
            f"objects, or a dask collection, not {type(partitions).__name__}"
        )
    else:
        found = list(partitions)
    if not found:
        raise AutogradValueError(f"{name}: there are no partitions; pass at least one")
    kinds = {"futures": is_future, "delayed objects": is_delayed}
    for what, is_one in kinds.items():
        count = sum(map(is_one, found))
        if 0 < count < len(found):
            raise AutogradTypeError(
                f"{name}: {count} of {len(found)} partitions are {what}; pass all or none as such"
            )
    return found


def is_future(value: Any) -> bool:
    """Whether a value is a future of dask.distributed."""
    kinds = type(value).__mro__
    return any(k.__name__ == "Future" and k.__module__ == "distributed.client" for k in kinds)


def is_delayed(value: Any) -> bool:
    """Whether a value is a delayed object of dask."""
    return hasattr(value, "__dask_graph__") and value.__dask_graph__() is not None


class PrivateGraph(NamedTuple):
    """A delayed partition with just its own tasks, which one worker computes in one thread."""

    key: Any
    graph: dict[Any, Any]

    def load(self) -> Any:
        """The value of the partition."""
        return dask.get(self.graph, self.key)


def private_graphs(partitions: list[Any]) -> list[PrivateGraph] | None:
    """The graphs of delayed partitions, or None if they share tasks or data in a cluster's memory.

    A partition with a graph of its own is loaded inside the task that differentiates it.
    """
    graphs: dict[int, dict[Any, Any]] = {}  # delayed objects of one collection have one graph
    seen: set[Any] = set()
    found = []
    for partition in partitions:
        whole = partition.__dask_graph__()
        graph = graphs.setdefault(id(whole), {})
        if not graph:
            if _in_memory(partition):
                return None
            graph.update(whole)
        (key,) = partition.__dask_keys__()
        needed = _needed(graph, key)
        if not seen.isdisjoint(needed):
            return None
        seen.update(needed)
        found.append(PrivateGraph(key, {name: graph[name] for name in needed}))
    return found


def _needed(graph: dict[Any, Any], key: Any) -> set[Any]:
    """The keys that a task depends on, and its own."""
    found = {key}
    stack = [key]
    while stack:
        new = dask.core.get_dependencies(graph, stack.pop()) - found
        found |= new
        stack += new
    return found


def _in_memory(partition: Any) -> bool:
    """Whether a delayed object refers to data in a cluster's memory."""
    client = sys.modules.get("distributed.client")  # no futures without it
    return client is not None and bool(client.futures_of(partition))
