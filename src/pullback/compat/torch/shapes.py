"""Shapes, joining and splitting under PyTorch's names."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

import pullback as pb
from pullback._generated import functions_nn_layers as layers
from pullback._generated import functions_shape as operators
from pullback.compat.torch.creation import shape_of
from pullback.compat.torch.dtypes import Size
from pullback.compat.torch.spelling import numpy_names, spell
from pullback.compat.torch.tensor import convert, convert_array, values_of

__all__ = [
    "as_strided",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "block_diag",
    "broadcast_shapes",
    "broadcast_tensors",
    "broadcast_to",
    "cartesian_prod",
    "cat",
    "chunk",
    "column_stack",
    "combinations",
    "concat",
    "concatenate",
    "diag",
    "diag_embed",
    "diagflat",
    "diagonal",
    "dsplit",
    "dstack",
    "expand",
    "expand_as",
    "flatten",
    "flip",
    "fliplr",
    "flipud",
    "hsplit",
    "hstack",
    "meshgrid",
    "moveaxis",
    "movedim",
    "narrow",
    "narrow_copy",
    "permute",
    "pixel_shuffle",
    "pixel_unshuffle",
    "ravel",
    "repeat",
    "repeat_interleave",
    "reshape",
    "reshape_as",
    "roll",
    "rot90",
    "row_stack",
    "select",
    "split",
    "split_with_sizes",
    "squeeze",
    "stack",
    "swapaxes",
    "swapdims",
    "t",
    "tensor_split",
    "tile",
    "transpose",
    "tril",
    "triu",
    "unbind",
    "unflatten",
    "unfold",
    "unsqueeze",
    "vander",
    "view",
    "view_as",
    "vsplit",
    "vstack",
]

atleast_1d, atleast_2d, atleast_3d = pb.atleast_1d, pb.atleast_2d, pb.atleast_3d
cat = concat = concatenate = numpy_names(
    lambda tensors, dim=0: operators.concatenate(
        [t for t in tensors if not _is_legacy_empty(t)] or tensors, dim
    )
)
stack = numpy_names(lambda tensors, dim=0: operators.stack(list(tensors), dim))
hstack = spell(lambda tensors: operators.hstack(list(tensors)), first=("tensors",))
vstack = row_stack = spell(lambda tensors: operators.vstack(list(tensors)), first=("tensors",))
dstack = spell(lambda tensors: operators.dstack(list(tensors)), first=("tensors",))
column_stack = spell(lambda tensors: operators.column_stack(list(tensors)), first=("tensors",))
fliplr, flipud = spell(operators.fliplr), spell(operators.flipud)
moveaxis = movedim = spell(operators.moveaxis)
narrow = spell(operators.narrow, first=("input", "dim", "start", "length"))
pixel_shuffle, pixel_unshuffle = spell(layers.pixel_shuffle), spell(layers.pixel_unshuffle)
ravel = spell(operators.ravel)
rot90 = spell(operators.rot90, dims="axes")
select = spell(operators.select, first=("input", "dim", "index"))
swapaxes = spell(operators.swapaxes, first=("input", "axis0", "axis1"))
swapdims = spell(operators.swapaxes, first=("input", "dim0", "dim1"))
unbind = numpy_names(lambda input, dim=0: tuple(operators.unbind(input, dim)))
chunk = numpy_names(lambda input, chunks, dim=0: tuple(operators.chunk(input, chunks, dim)))


def _is_legacy_empty(tensor: Any) -> bool:
    """Whether a tensor is the one of shape (0,) that PyTorch joins to tensors of any shape."""
    return bool(tensor.ndim == 1 and tensor.shape[0] == 0)


def _lengths(given: tuple[Any, ...], named: dict[str, Any]) -> tuple[int, ...]:
    """Numbers that were given in a row, as one sequence, or as the only keyword argument."""
    return shape_of(given or tuple(named.values()))


def reshape(input: Any, *shape: Any, **named: Any) -> Any:
    """The elements in another shape: ``reshape(2, 3)`` or ``reshape((2, 3))``."""
    return operators.reshape(input, _lengths(shape, named))


def flip(input: Any, *dims: Any, **named: Any) -> Any:
    """The elements in reversed order along axes."""
    return operators.flip(input, _lengths(dims, named))


def view(input: Any, *shape: Any) -> Any:
    """The same memory in another shape, or read as another dtype."""
    if len(shape) == 1 and isinstance(shape[0], np.dtype):
        return pb.Tensor.view(input, shape[0])
    return pb.Tensor.view(input, shape_of(shape))


def view_as(input: Any, other: Any) -> Any:
    """`view` in the shape of another tensor."""
    return view(input, other.shape)


def reshape_as(input: Any, other: Any) -> Any:
    """`reshape` in the shape of another tensor."""
    return operators.reshape(input, tuple(other.shape))


def flatten(input: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    """Axes from `start_dim` to `end_dim` as one."""
    shape = tuple(input.shape) or (1,)
    first, last = start_dim % len(shape), end_dim % len(shape)
    joined = math.prod(shape[first : last + 1])
    return operators.reshape(input, (*shape[:first], joined, *shape[last + 1 :]))


def unflatten(input: Any, dim: int, sizes: Any) -> Any:
    """One axis as several."""
    shape, place = tuple(input.shape), dim % input.ndim
    return operators.reshape(input, (*shape[:place], *sizes, *shape[place + 1 :]))


@numpy_names
def unsqueeze(input: Any, dim: int) -> Any:
    """A new axis of length one."""
    return operators.expand_dims(input, dim)


@numpy_names
def squeeze(input: Any, dim: Any = None) -> Any:
    """Without axes of length one; axes of other lengths that are named stay."""
    if dim is None:
        return operators.squeeze(input)
    if not input.ndim:
        return input.view(())
    axes = [d % input.ndim for d in (dim if isinstance(dim, tuple | list) else (dim,))]
    return operators.squeeze(input, tuple(d for d in axes if input.shape[d] == 1))


def transpose(input: Any, dim0: int, dim1: int) -> Any:
    """Two axes exchanged."""
    return operators.swapaxes(input, dim0, dim1)


def t(input: Any) -> Any:
    """The transpose of a matrix; vectors stay as they are."""
    if input.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.ndim}D")
    return operators.permute_dims(input)


def permute(input: Any, *dims: Any, **named: Any) -> Any:
    """The axes in another order."""
    return operators.permute_dims(input, _lengths(dims, named))


def expand(input: Any, *size: Any, **named: Any) -> Any:
    """Axes of length one repeated without a copy; -1 leaves a length as it is."""
    wanted = _lengths(size, named)
    missing = len(wanted) - input.ndim
    own = (1,) * missing + tuple(input.shape)
    return operators.broadcast_to(
        input, tuple(have if n == -1 else n for n, have in zip(wanted, own, strict=True))
    )


def expand_as(input: Any, other: Any) -> Any:
    """`expand` to the shape of another tensor."""
    return operators.broadcast_to(input, tuple(other.shape))


def broadcast_to(input: Any, size: Any) -> Any:
    """`expand` to a shape."""
    return expand(input, size)


def broadcast_tensors(*tensors: Any) -> Any:
    """Tensors in their common shape."""
    return tuple(pb.broadcast_arrays(*tensors))


def broadcast_shapes(*shapes: Any) -> Size:
    """The common shape of several.

    >>> broadcast_shapes((2, 1), (3,))
    torch.Size([2, 3])
    """
    return Size(np.broadcast_shapes(*((s,) if isinstance(s, int) else tuple(s) for s in shapes)))


def repeat(input: Any, *repeats: Any, **named: Any) -> Any:
    """The tensor beside itself, as often as said for each axis."""
    return operators.tile(input, _lengths(repeats, named))


def tile(input: Any, *dims: Any, **named: Any) -> Any:
    """`repeat`; axes that are not named stay."""
    return operators.tile(input, _lengths(dims, named))


def repeat_interleave(input: Any, repeats: Any, dim: Any = None, *, output_size: Any = None) -> Any:
    """Each element repeated along an axis."""
    del output_size
    counts = values_of(repeats).tolist() if hasattr(repeats, "_array") else repeats
    return operators.repeat(input, counts, dim)


def split(
    tensor: Any, split_size_or_sections: Any = None, dim: int = 0, *, split_size: Any = None
) -> Any:
    """Parts of a length, the last one shorter; or of given lengths.

    >>> import pullback.compat.torch as torch
    >>> [part.tolist() for part in torch.split(torch.arange(5), 2)]
    [[0, 1], [2, 3], [4]]
    """
    split_size_or_sections = split_size if split_size is not None else split_size_or_sections
    total = tensor.shape[dim]
    if isinstance(split_size_or_sections, int | np.integer):
        step = int(split_size_or_sections)
        lengths = [min(step, total - start) for start in range(0, total, step or 1)] or [0]
    else:
        lengths = list(map(int, split_size_or_sections))
        if sum(lengths) != total:
            raise RuntimeError(
                f"split_with_sizes expects split_sizes to sum exactly to {total} (input tensor's "
                f"size at dimension {dim}), but got split_sizes={lengths}"
            )
    ends = list(itertools.accumulate(lengths))
    return tuple(operators.split(tensor, ends[:-1], dim))


split_with_sizes = split


def tensor_split(
    input: Any,
    indices_or_sections: Any = None,
    dim: int = 0,
    *,
    sections: Any = None,
    indices: Any = None,
) -> Any:
    """Parts of nearly equal length, or parts that end at given places."""
    for named in (sections, indices):
        indices_or_sections = indices_or_sections if named is None else named
    given = indices_or_sections
    given = values_of(given) if hasattr(given, "_array") else given
    parts = given.tolist() if isinstance(given, np.ndarray) else given
    return tuple(
        operators.array_split(input, parts if isinstance(parts, int) else list(parts), dim)
    )


def hsplit(input: Any, indices_or_sections: Any) -> Any:
    """`tensor_split` along the second axis, the first of a vector."""
    return tensor_split(input, indices_or_sections, 0 if input.ndim == 1 else 1)


def vsplit(input: Any, indices_or_sections: Any) -> Any:
    """`tensor_split` along the first axis."""
    return tensor_split(input, indices_or_sections, 0)


def dsplit(input: Any, indices_or_sections: Any) -> Any:
    """`tensor_split` along the third axis."""
    return tensor_split(input, indices_or_sections, 2)


def roll(input: Any, shifts: Any, dims: Any = None) -> Any:
    """Elements shifted along axes; those that leave come back at the other end."""
    axes = tuple(dims) if isinstance(dims, list) else dims
    return operators.roll(input, tuple(shifts) if isinstance(shifts, list) else shifts, axes)


def meshgrid(*tensors: Any, indexing: str = "ij") -> Any:
    """Coordinates of a grid."""
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], list | tuple) else tensors
    return tuple(pb.meshgrid(*given, indexing=indexing))


def diag(input: Any, diagonal: int = 0) -> Any:
    """A matrix with a diagonal, or the diagonal of a matrix."""
    return operators.diag(input, diagonal)


def diagflat(input: Any, offset: int = 0) -> Any:
    """A matrix with all elements on its diagonal."""
    return operators.diagflat(input, offset)


def diagonal(input: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """The diagonal of two axes, as the last axis."""
    return operators.diagonal(input, offset, dim1, dim2)


def diag_embed(input: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """Matrices with the last axis as their diagonal."""
    length = input.shape[-1] + abs(offset)
    places = np.arange(input.shape[-1])
    made = pb.zeros((*input.shape[:-1], length, length), input.dtype)
    key = (..., places + max(0, -offset), places + max(0, offset))
    made[key] = input
    return convert(pb.moveaxis(made, (-2, -1), (dim1, dim2)))


def tril(input: Any, diagonal: int = 0) -> Any:
    """The part of matrices on and below a diagonal."""
    return operators.tril(input, diagonal)


def triu(input: Any, diagonal: int = 0) -> Any:
    """The part of matrices on and above a diagonal."""
    return operators.triu(input, diagonal)


def as_strided(input: Any, size: Any, stride: Any, storage_offset: Any = None) -> Any:
    """A view with given lengths and strides, in elements."""
    return operators.as_strided(input, list(size), list(stride), storage_offset or 0)


def narrow_copy(input: Any, dim: int, start: int, length: int) -> Any:
    """A copy of `narrow`."""
    return operators.narrow(input, dim, start, length).clone()


def unfold(input: Any, dimension: int, size: int, step: int = 1) -> Any:
    """All windows of a length along an axis, as a new last axis."""
    return operators.unfold(input, dimension, size, step)


def block_diag(*tensors: Any) -> Any:
    """A matrix with matrices on its diagonal."""
    parts = [pb.atleast_2d(tensor) for tensor in tensors]
    width = sum(part.shape[1] for part in parts)
    rows, before = [], 0
    for part in parts:
        after = width - before - part.shape[1]
        rows.append(pb.pad(part, ((0, 0), (before, after))))
        before += part.shape[1]
    return operators.concatenate(rows, 0)


def cartesian_prod(*tensors: Any) -> Any:
    """All combinations of one element of each vector, in rows."""
    if len(tensors) == 1:
        return tensors[0]
    return operators.stack([operators.reshape(g, -1) for g in meshgrid(*tensors)], 1)


def combinations(input: Any, r: int = 2, with_replacement: bool = False) -> Any:
    """All combinations of `r` elements of a vector, in rows."""
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = np.array(list(choose(range(input.shape[0]), r)), np.int64).reshape(-1, r)
    return input[convert_array(places)]


def vander(x: Any, N: Any = None, increasing: bool = False) -> Any:
    """The matrix of the powers of a vector's elements."""
    return pb.vander(x, N, increasing)
