"""Linear functions vectorized over the vectors of a basis, for Jacobians."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from pullback.autograd.namespaces import tensors
from pullback.func.vmap import map_rows, vmap
from pullback.tensor.tensor import Tensor, fresh, wrap

__all__ = ["map_basis", "unit_vectors"]


def unit_vectors(shapes: Sequence[tuple[int, ...]], dtypes: Sequence[Any]) -> list[Tensor]:
    """All unit vectors of a list of arrays, seen as one vector: for each array, its part of them.

    The first axis of each result counts the unit vectors.
    """
    sizes = [prod(shape) for shape in shapes]
    total, start, parts = sum(sizes), 0, []
    for shape, size, dtype in zip(shapes, sizes, dtypes, strict=True):
        part = np.zeros((total, *shape), dtype)
        part.reshape(-1)[start * size : (start + size) * size : size + 1] = 1  # a diagonal
        parts.append(wrap(part))
        start += size
    return parts


def map_basis(
    fn: Callable[..., list[Tensor]],
    basis: list[Tensor],
    chunk_size: int | None,
    randomness: str = "error",
    out_dim: int = 0,
) -> list[Tensor]:
    """Calls a function with the vectors of a basis; its results, with one more axis for these.

    That axis is the first, or with an `out_dim` of -1 the last. The basis must come from
    `unit_vectors` and be held by the caller alone. All vectors go together, or `chunk_size` of them
    at a time; with a chunk size of 1 the function is called with plain tensors, once for each.
    """
    count = basis[0].shape[0]
    if count == 0:
        found = fn(*(fresh(np.zeros(part.shape[1:], part.dtype)) for part in basis))
        shapes = [(*r.shape, 0) if out_dim else (0, *r.shape) for r in found]
        return [fresh(np.zeros(s, r.dtype)) for s, r in zip(shapes, found, strict=True)]
    if (count == 1 and randomness == "error") or chunk_size == 1:
        rows = [fn(*(part[number] for part in basis)) for number in range(count)]
        return [tensors.stack(list(column), out_dim) for column in zip(*rows, strict=True)]
    if chunk_size is None or chunk_size >= count:
        return map_rows(fn, basis, randomness, out_dim)
    mapped = vmap(fn, 0, out_dim, randomness, chunk_size=chunk_size)
    return mapped(*basis)  # type: ignore[no-any-return]
