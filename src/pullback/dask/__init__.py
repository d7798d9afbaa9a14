"""Tensors on dask arrays: derivatives of programs on data that no process holds as a whole.

`from_dask` makes a tensor of a dask array; operators and their derivatives extend dask's graph, and
`compute` runs it. `map_blocks` and `map_overlap` call a function on blocks, and its derivative in
the tasks of a backward pass.
"""

from __future__ import annotations

from pullback.dask.array import from_dask, is_dask, to_dask
from pullback.dask.collect import compute, persist, visualize
from pullback.dask.fallback import gather_limit, gathered_operators
from pullback.dask.mapping import map_blocks, map_overlap
from pullback.errors import DaskError

__all__ = [
    "DaskError",
    "compute",
    "from_dask",
    "gather_limit",
    "gathered_operators",
    "is_dask",
    "map_blocks",
    "map_overlap",
    "persist",
    "to_dask",
    "visualize",
]
