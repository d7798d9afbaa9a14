"""Many derivatives in one go: a linear function mapped over the vectors of a basis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.autograd.namespaces import tensors
from pullback.func.vmap import vmap
from pullback.tensor.tensor import Tensor, fresh, wrap

__all__ = ["map_basis", "unit_vectors"]


def unit_vectors(shapes: Sequence[tuple[int, ...]], dtypes: Sequence[Any]) -> list[Tensor]:
    """All unit vectors of a list of arrays, seen as one vector: for each array, its part of them.

    The first axis of each result counts the unit vectors.
    """
    sizes = [int(np.prod(shape, dtype=np.int64)) for shape in shapes]
    total, start, parts = sum(sizes), 0, []
    for shape, size, dtype in zip(shapes, sizes, dtypes, strict=True):
        part = np.zeros((total, size), dtype)
        np.fill_diagonal(part[start:], 1)
        parts.append(wrap(part.reshape(total, *shape)))
        start += size
    return parts


def map_basis(
    fn: Callable[..., list[Tensor]],
    basis: list[Tensor],
    chunk_size: int | None,
    randomness: str = "error",
) -> list[Tensor]:
    """Calls a function with the vectors of a basis; its results, with one more axis in front.

    All vectors go together, or `chunk_size` of them at a time; with a chunk size of 1 the function
    is called with plain tensors, once for each.
    """
    count = basis[0].shape[0]
    if count == 0:
        found = fn(*(fresh(np.zeros(part.shape[1:], part.dtype)) for part in basis))
        return [fresh(np.zeros((0, *result.shape), result.dtype)) for result in found]
    if (count == 1 and randomness == "error") or chunk_size == 1:
        rows = [fn(*(part[number] for part in basis)) for number in range(count)]
        return [tensors.stack(list(column)) for column in zip(*rows, strict=True)]
    mapped = vmap(fn, randomness=randomness, chunk_size=chunk_size)
    return mapped(*basis)  # type: ignore[no-any-return]
