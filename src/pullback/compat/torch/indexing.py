"""Reading and writing at places under PyTorch's names, and ``x[key]`` by its rules."""

from __future__ import annotations

from typing import Any

import numpy as np

import pullback as pb
from pullback._generated import functions_indexing as operators
from pullback._generated import functions_sorting as sorting
from pullback.compat.torch.spelling import spell
from pullback.compat.torch.tensor import values_of
from pullback.tensor.methods import indexing as plain
from pullback.tensor.tensor import Tensor as PlainTensor

__all__ = [
    "argwhere",
    "diagonal_scatter",
    "gather",
    "get_item",
    "index_add",
    "index_copy",
    "index_fill",
    "index_put",
    "index_select",
    "masked_fill",
    "masked_scatter",
    "masked_select",
    "put",
    "scatter",
    "scatter_add",
    "scatter_reduce",
    "select_scatter",
    "set_item",
    "slice_scatter",
    "take",
    "take_along_dim",
]

argwhere = spell(sorting.argwhere)
index_select = spell(operators.index_select, first=("input", "dim", "index"))
masked_fill = spell(operators.masked_fill, first=("input", "mask", "value"))
masked_select = spell(operators.masked_select, first=("input", "mask"))
scatter_add = spell(operators.scatter_add, first=("input", "dim", "index", "src"))
scatter_reduce = spell(operators.scatter_reduce, first=("input", "dim", "index", "src", "reduce"))


def _without_integers(key: Any) -> tuple[Any, Any]:
    """A key's integers as a view that is taken first, and the rest of the key.

    NumPy counts an integer beside an array as an array, PyTorch as a selection before it.
    """
    if type(key) is not tuple or not any(
        isinstance(item, list | np.ndarray) or (isinstance(item, PlainTensor) and item.ndim)
        for item in key
    ):
        return None, key
    if not any(isinstance(item, int | np.integer) and not isinstance(item, bool) for item in key):
        return None, key
    first: list[Any] = []
    rest: list[Any] = []
    for item in key:
        if isinstance(item, int | np.integer) and not isinstance(item, bool):
            first.append(item)
        elif item is None:
            rest.append(None)
        elif item is ...:
            first.append(...)
            rest.append(...)
        else:
            axes = item.ndim if _is_mask(item) else 1
            first += [slice(None)] * axes
            rest.append(item)
    return tuple(first), tuple(rest)


def _is_mask(item: Any) -> bool:
    return isinstance(item, PlainTensor | np.ndarray) and item.dtype.kind == "b"


def get_item(self: Any, key: Any) -> Any:
    """``x[key]``."""
    first, rest = _without_integers(key)
    return plain.getitem(self if first is None else plain.getitem(self, first), rest)


def set_item(self: Any, key: Any, value: Any) -> None:
    """``x[key] = value``."""
    first, rest = _without_integers(key)
    plain.setitem(self if first is None else plain.getitem(self, first), rest, value)


def gather(input: Any, dim: int, index: Any, *, sparse_grad: bool = False) -> Any:
    """Elements at places along an axis."""
    del sparse_grad
    return operators.gather(input, dim, index)


def scatter(
    input: Any, dim: int, index: Any, src: Any = None, *, value: Any = None, reduce: Any = None
) -> Any:
    """A copy with elements of `src`, or a number, written to places along an axis."""
    source = value if src is None else src
    if not isinstance(source, PlainTensor):
        source = pb.full(tuple(index.shape), source, input.dtype)
    if reduce is None:
        return operators.scatter(input, dim, index, source)
    name = {"add": "sum", "multiply": "prod"}.get(reduce, reduce)
    return operators.scatter_reduce(input, dim, index, source, name)


def take(input: Any, index: Any) -> Any:
    """Elements of the flattened tensor at places."""
    return operators.take(input, index)


def take_along_dim(input: Any, indices: Any, dim: Any = None) -> Any:
    """Elements at places along an axis, broadcast against each other."""
    if dim is None:
        return operators.take_along_axis(pb.reshape(input, -1), pb.reshape(indices, -1), 0)
    return operators.take_along_axis(input, indices, dim)


def index_add(input: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Any:
    """A copy with `source` added to places along an axis."""
    return operators.index_add(input, dim, index, source if alpha == 1 else source * alpha)


def _key(dim: int, index: Any, ndim: int) -> tuple[Any, ...]:
    return (slice(None),) * (dim % ndim) + (index,)


def index_copy(input: Any, dim: int, index: Any, source: Any) -> Any:
    """A copy with `source` written to places along an axis."""
    made = input.clone()
    plain.setitem(made, _key(dim, index, input.ndim), source)
    return made


def index_fill(input: Any, dim: int, index: Any, value: Any) -> Any:
    """A copy with a number written to places along an axis."""
    return index_copy(input, dim, index, value)


def index_put(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """A copy with values written to places."""
    return operators.index_put(input, list(indices), values, accumulate)


def put(input: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    """A copy with values written to places of the flattened tensor."""
    flat = pb.reshape(input, -1)
    places, values = pb.reshape(index, -1), pb.reshape(source, -1)
    return pb.reshape(operators.index_put(flat, [places], values, accumulate), tuple(input.shape))


def masked_scatter(input: Any, mask: Any, source: Any) -> Any:
    """A copy with the first elements of `source` written where the mask is true."""
    shape = np.broadcast_shapes(tuple(input.shape), tuple(mask.shape))
    made = pb.broadcast_to(input, shape).clone()
    where = pb.broadcast_to(mask, shape)
    count = int(np.count_nonzero(values_of(where)))
    plain.setitem(made, where, pb.reshape(source, -1)[:count])
    return made


def select_scatter(input: Any, src: Any, dim: int, index: int) -> Any:
    """A copy with `src` written to one place of an axis."""
    return index_copy(input, dim, index, src)


def slice_scatter(
    input: Any, src: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Any:
    """A copy with `src` written to a slice of an axis."""
    return index_copy(input, dim, slice(start, end, step), src)


def diagonal_scatter(input: Any, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """A copy with `src` written to a diagonal."""
    made = input.clone()
    pb.Tensor.diagonal(made, offset, dim1, dim2).copy_(src)
    return made
