"""Graphs of tasks with one task for each block, written out block by block."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import dask.array as da
import numpy as np
from dask.highlevelgraph import HighLevelGraph

__all__ = ["Chunks", "array_of_tasks", "grid", "keys_of", "lengths_at"]

Chunks = tuple[tuple[int, ...], ...]
_Place = tuple[int, ...]


def grid(chunks: Chunks) -> Iterator[_Place]:
    """The numbers of all blocks."""
    return itertools.product(*(range(len(chunk)) for chunk in chunks))


def lengths_at(chunks: Chunks, place: _Place) -> tuple[int, ...]:
    """The shape of one block."""
    return tuple(chunk[number] for chunk, number in zip(chunks, place, strict=True))


def keys_of(array: Any, place: _Place) -> tuple[Any, ...]:
    """The key of one block of a dask array."""
    return (array.name, *place)


def array_of_tasks(
    name: str, tasks: Mapping[_Place, Any], chunks: Chunks, dtype: Any, sources: list[Any]
) -> Any:
    """A dask array whose blocks are the results of given tasks."""
    layer = {(name, *place): task for place, task in tasks.items()}
    graph = HighLevelGraph.from_collections(name, layer, dependencies=sources)
    return da.Array(graph, name, chunks, meta=np.empty((0,) * len(chunks), dtype))
