"""``map_blocks`` and ``map_overlap``: functions on blocks, differentiated in tasks."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple
from numpy.typing import NDArray

from pullback.autograd.api import grad as gradients_of
from pullback.autograd.function import Function
from pullback.dask.array import DaskArray, constant, is_dask, unique_name
from pullback.dask.blocks import add_parts
from pullback.dask.graphs import Chunks, array_of_tasks, keys_of, lengths_at
from pullback.dask.halo import HaloSpec, add_halo, halo_specs
from pullback.errors import AutogradTypeError, AutogradValueError, DaskError
from pullback.interop.mode import differentiable
from pullback.tensor.tensor import Tensor, fresh, wrap

__all__ = ["map_blocks", "map_overlap"]

_Place = tuple[int, ...]
_Axes = tuple[int | None, ...]
_REFUSED = (
    "is not supported; write the function with operators on tensors that hold dask arrays, whose "
    "derivatives of all orders exist"
)


class _Mapped(NamedTuple):
    """One call of `map_blocks`: what the tasks of both passes have in common.

    A call has a grid of blocks, with one task for each pass at each place. An axis of an operand or
    of the result follows an axis of the grid, or has one block (None).
    """

    func: Callable[..., Any]
    kwargs: dict[str, Any]
    name: str
    numblocks: tuple[int, ...]  # of the grid
    operands: tuple[_Axes, ...]
    result: _Axes
    chunks: Chunks  # of the result
    dtype: np.dtype[Any]
    casts: bool  # whether results of another kind are converted to the dtype
    halos: tuple[HaloSpec, ...]

    def places(self) -> Iterator[_Place]:
        """All places of the grid."""
        return itertools.product(*map(range, self.numblocks))

    def trim(self, place: _Place) -> tuple[slice, ...]:
        """The part of a block's result that remains."""
        parts = [slice(None)] * len(self.chunks)
        for spec in self.halos:
            low, high = spec.sides(place[spec.axis])
            parts[spec.axis] = slice(low, -high if high else None)
        return tuple(parts)


def _block_at(axes: _Axes, place: _Place) -> _Place:
    """The number of the block that an array has at a place of the grid."""
    return tuple(0 if axis is None else place[axis] for axis in axes)


def _evaluate(mapped: _Mapped, tensors: list[Tensor], trim: Any, shape: Any) -> Tensor:
    """The function's result on blocks; raises unless it has the shape and kind of the result."""
    found = mapped.func(*tensors, **mapped.kwargs)
    result: Tensor = found if isinstance(found, Tensor) else fresh(np.asarray(found))
    is_array = result.ndim == len(shape)
    left = np.broadcast_to(np.empty(()), result.shape)[trim].shape if is_array else result.shape
    if left != shape:
        raise AutogradValueError(
            f"{mapped.name}: the function returned an array of shape {result.shape} for a block of "
            f"shape {tensors[0].shape}, of which {left} remains, but {shape} is expected; pass "
            f"chunks= for a function that changes the shape"
        )
    if not mapped.casts and not np.can_cast(result.dtype, mapped.dtype, "same_kind"):
        raise AutogradValueError(
            f"{mapped.name}: the function returned an array of dtype {result.dtype}, which does "
            f"not fit into {mapped.dtype}, the dtype of the first operand; pass "
            f"dtype={result.dtype.name!r}"
        )
    return result


def _read_only(block: Any) -> Tensor:
    """A block that other tasks read, too."""
    view = np.asarray(block).view()
    view.flags.writeable = False
    return wrap(view)


def _forward(mapped: _Mapped, trim: Any, shape: Any, *blocks: Any) -> NDArray[Any]:
    """A task of the forward pass."""
    result = _evaluate(mapped, [_read_only(block) for block in blocks], trim, shape)
    if result.requires_grad:
        raise AutogradValueError(
            f"{mapped.name}: the function uses a tensor that requires grad and is no operand, so "
            f"its gradient would be lost; pass it as an operand, or use its detach()"
        )
    return np.asarray(result.detach().numpy()[trim]).astype(mapped.dtype, copy=False)


def _backward(
    mapped: _Mapped, needs: tuple[bool, ...], trim: Any, shape: Any, cotangent: Any, *blocks: Any
) -> tuple[Any, ...]:
    """A task of the backward pass: the VJP of the function on one block."""
    tensors = []
    for block, needed in zip(blocks, needs, strict=True):
        tensors.append(wrap(np.array(block)).requires_grad_() if needed else _read_only(block))
    result = _evaluate(mapped, tensors, trim, shape)
    seed = np.zeros(result.shape, result.dtype)
    seed[trim] = cotangent
    leaves = [tensor for tensor, needed in zip(tensors, needs, strict=True) if needed]
    if not result.requires_grad:
        found: Sequence[Any] = [None] * len(leaves)
    else:
        found = gradients_of(result, leaves, wrap(seed), allow_unused=True)
    pairs = zip(found, leaves, strict=True)
    return tuple(np.zeros(x.shape, x.dtype) if g is None else g.numpy() for g, x in pairs)


def _pick(results: tuple[Any, ...], number: int, axes: int) -> Any:
    return results[number][(np.newaxis,) * axes] if axes else results[number]


def _lazy(tensor: Tensor) -> Any:
    held = tensor._array
    if isinstance(held, DaskArray):
        return held.whole()
    return da.from_array(np.array(held), chunks=-1, name=unique_name("constant"))


def _keys(mapped: _Mapped, arrays: list[Any], place: _Place) -> list[Any]:
    pairs = zip(arrays, mapped.operands, strict=True)
    return [keys_of(array, _block_at(axes, place)) for array, axes in pairs]


class _MapBlocks(Function):
    """A function on blocks, whose VJP runs in tasks."""

    @staticmethod
    def forward(mapped: _Mapped, *tensors: Tensor) -> Tensor:
        arrays = [_lazy(tensor) for tensor in tensors]
        tasks = {}
        for place in mapped.places():
            block = _block_at(mapped.result, place)
            call = partial(_forward, mapped, mapped.trim(block), lengths_at(mapped.chunks, block))
            tasks[block] = (call, *_keys(mapped, arrays, place))
        name = unique_name(mapped.name)
        made = array_of_tasks(name, tasks, mapped.chunks, mapped.dtype, arrays)
        return fresh(DaskArray(made))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:  # noqa: ARG004
        ctx.mapped = inputs[0]
        ctx.save_for_backward(*inputs[1:])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        mapped: _Mapped = ctx.mapped
        tensors: tuple[Any, ...] = ctx.saved_tensors
        needs = tuple(bool(need) for need in ctx.needs_input_grad[1:])
        found = [None, *_Vjp.apply(mapped, needs, grad, *tensors)]
        return tuple(g if need else None for g, need in zip(found, (False, *needs), strict=True))

    @staticmethod
    def jvp(ctx: Any, *_: Any) -> Any:
        raise DaskError(f"{ctx.mapped.name}: forward mode {_REFUSED}")


class _Vjp(Function):
    """The gradients of the operands of `_MapBlocks`, which cannot be differentiated again."""

    @staticmethod
    def forward(
        mapped: _Mapped, needs: tuple[bool, ...], grad: Tensor, *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        arrays = [_lazy(tensor) for tensor in tensors]
        cotangent = _lazy(grad).rechunk(mapped.chunks)
        tasks = {}
        for place in mapped.places():
            block = _block_at(mapped.result, place)
            shape = lengths_at(mapped.chunks, block)
            call = partial(_backward, mapped, needs, mapped.trim(block), shape)
            tasks[place] = (call, keys_of(cotangent, block), *_keys(mapped, arrays, place))
        name = unique_name(f"{mapped.name}-vjp")
        ones = tuple((1,) * n for n in mapped.numblocks)
        vjp = array_of_tasks(name, tasks, ones, object, [cotangent, *arrays])
        found, number = [], 0
        for array, need, axes in zip(arrays, needs, mapped.operands, strict=True):
            zeros = fresh(constant(0, array.shape, array.dtype))
            found.append(_gradient(mapped, vjp, array, number, axes) if need else zeros)
            number += need
        return tuple(found)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:  # noqa: ARG004
        ctx.name_of_function = inputs[0].name

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> tuple[Any, ...]:
        raise DaskError(f"{ctx.name_of_function}: its second derivative {_REFUSED}")

    @staticmethod
    def jvp(ctx: Any, *_: Any) -> Any:
        raise DaskError(f"{ctx.name_of_function}: forward mode {_REFUSED}")


def _gradient(mapped: _Mapped, vjp: Any, array: Any, number: int, axes: _Axes) -> Tensor:
    """The gradient of one operand: results of places that share a block of it are added."""
    shared = [axis for axis in range(vjp.ndim) if axis not in axes]
    tasks = {}
    for place in mapped.places():
        key = (*(place[axis] for axis in shared), *_block_at(axes, place))
        tasks[key] = (_pick, keys_of(vjp, place), number, len(shared))
    chunks = (*((1,) * mapped.numblocks[axis] for axis in shared), *array.chunks)
    made = array_of_tasks(unique_name("gradient"), tasks, chunks, array.dtype, [vjp])
    return fresh(DaskArray(add_parts(made, len(shared), array.dtype) if shared else made))


def map_blocks(
    func: Callable[..., Any],
    *operands: Any,
    chunks: Any = None,
    dtype: Any = None,
    drop_axis: int | Sequence[int] = (),
    new_axis: int | Sequence[int] = (),
    **kwargs: Any,
) -> Tensor:
    """Calls a function on the blocks of tensors; its derivative runs in tasks of its own.

    Args:
        func: takes one block of each tensor that holds a dask array, and all of each other operand,
            as tensors; returns the block of the result. It runs in `numpy_mode`, and each block is
            differentiated by itself.
        operands: tensors that hold dask arrays whose blocks are the same or broadcast, and tensors
            or arrays in memory, such as parameters. The gradient of what several blocks get is the
            sum over them.
        chunks: the chunks of the result, if the function changes the shape of blocks.
        dtype: of the result; that of the first tensor by default.
        drop_axis: axes of the operands, each of one block, that the result does not have.
        new_axis: axes of the result, each of one block, that the operands do not have.
        kwargs: further arguments of the function, which is not differentiated by them.

    The second derivative is refused.

    >>> import dask.array as da, pullback as pb
    >>> x = pb.dask.from_dask(da.arange(4.0, chunks=2))
    >>> w = pb.tensor(3.0, requires_grad=True)
    >>> y = pb.dask.map_blocks(lambda block, w: pb.sin(block) * w, x, w)
    >>> (gradient,) = pb.autograd.grad(y.sum(), [w])
    >>> round(float(pb.dask.compute(gradient)[0]), 6)
    1.891888
    """
    given = _Given("map_blocks", func, operands, kwargs, dtype)
    axes = _result_axes(given, drop_axis, new_axis)
    return given.mapped(axes, _result_chunks(given, axes, chunks), ())


class _Given:
    """The operands and options of a call, with the grid of their blocks."""

    def __init__(
        self, name: str, func: Any, operands: Sequence[Any], kwargs: dict[str, Any], dtype: Any
    ):
        if not callable(func):
            raise AutogradTypeError(f"{name}: expected a function, but got {type(func).__name__}")
        self.name, self.func, self.kwargs = name, differentiable(func), kwargs
        self.tensors = [x if isinstance(x, Tensor) else fresh(np.asarray(x)) for x in operands]
        lazy = [t._array for t in self.tensors if isinstance(t._array, DaskArray)]
        if not lazy:
            raise AutogradTypeError(f"{name}: no operand is a tensor that holds a dask array")
        for key, value in kwargs.items():
            if isinstance(value, Tensor) and (value.requires_grad or is_dask(value)):
                raise AutogradTypeError(
                    f"{name}: the argument {key!r} is a tensor that requires grad or holds a dask "
                    f"array; pass it as an operand, which stands before the options"
                )
        self.casts = dtype is not None
        self.dtype = np.dtype(lazy[0].dtype if dtype is None else dtype)
        self.grid = self._grid([held.whole().chunks for held in lazy])

    def _grid(self, given: Sequence[Chunks]) -> Chunks:
        """The chunks of the operands together; axes of length one broadcast."""
        grid: list[tuple[int, ...]] = [(1,)] * max(len(chunks) for chunks in given)
        for chunks in given:
            for axis, chunk in enumerate(reversed(chunks), start=1):
                if grid[-axis] == (1,):
                    grid[-axis] = chunk
                elif chunk not in ((1,), grid[-axis]):
                    raise AutogradValueError(
                        f"{self.name}: operands have different blocks: {tuple(grid)} and {chunks}; "
                        f"rechunk them before from_dask"
                    )
        return tuple(grid)

    def _axes(self, tensor: Tensor) -> _Axes:
        if not isinstance(tensor._array, DaskArray):
            return (None,) * tensor.ndim
        first = len(self.grid) - tensor.ndim
        chunks = tensor._array.whole().chunks
        pairs = zip(chunks, self.grid[first:], strict=True)
        return tuple(first + n if own == grid else None for n, (own, grid) in enumerate(pairs))

    def mapped(self, result: _Axes, chunks: Chunks, halos: tuple[HaloSpec, ...]) -> Tensor:
        """The tensor of the call."""
        call = _Mapped(
            func=self.func,
            kwargs=self.kwargs,
            name=self.name,
            numblocks=tuple(map(len, self.grid)),
            operands=tuple(map(self._axes, self.tensors)),
            result=result,
            chunks=chunks,
            dtype=self.dtype,
            casts=self.casts,
            halos=halos,
        )
        return _MapBlocks.apply(call, *self.tensors)  # type: ignore[no-any-return]


def _axis_list(given: int | Sequence[int], ndim: int) -> tuple[int, ...]:
    return normalize_axis_tuple(given, ndim) if ndim else ()


def _result_axes(given: _Given, drop_axis: Any, new_axis: Any) -> _Axes:
    """The axes of the grid that the axes of the result follow; None of new ones."""
    dropped = _axis_list(drop_axis, len(given.grid))
    for axis in dropped:
        if len(given.grid[axis]) > 1:
            raise AutogradValueError(
                f"{given.name}: drop_axis {axis} has {len(given.grid[axis])} blocks; an axis that "
                f"the result does not have must be one block: rechunk before from_dask"
            )
    kept: list[int | None] = [n for n in range(len(given.grid)) if n not in dropped]
    added = (new_axis,) if isinstance(new_axis, int) else tuple(new_axis)
    for axis in sorted(_axis_list(added, len(kept) + len(added))):
        kept.insert(axis, None)
    return tuple(kept)


def _result_chunks(given: _Given, axes: _Axes, chunks: Any) -> Chunks:
    if chunks is None:
        return tuple((1,) if axis is None else given.grid[axis] for axis in axes)
    counts = [1 if axis is None else len(given.grid[axis]) for axis in axes]
    wanted = tuple(tuple(int(n) for n in chunk) for chunk in chunks)
    if [len(chunk) for chunk in wanted] != counts:
        raise AutogradValueError(
            f"{given.name}: chunks= has to have as many blocks along each axis as the result, "
            f"{counts}, but has {[len(c) for c in wanted]}; drop_axis= and new_axis= name axes "
            f"that only one of operands and result has"
        )
    return wanted


def map_overlap(
    func: Callable[..., Any],
    x: Tensor,
    *operands: Any,
    depth: Any,
    boundary: Any = "reflect",
    dtype: Any = None,
    **kwargs: Any,
) -> Tensor:
    """Calls a function on the blocks of a tensor with `depth` elements of their neighbours.

    Args:
        func: takes a block with its halo, and what `operands` has; returns an array of the same
            shape, whose halo is cut off.
        x: a tensor that holds a dask array.
        operands: tensors or arrays in memory, such as parameters.
        depth: the width of the halo: a number for all axes, or for each, in a sequence or by axis
            in a mapping; a pair of numbers is what a block gets of its neighbours before and after.
        boundary: what lies outside of the array, for all axes or by axis: ``"reflect"`` (with the
            edge), ``"periodic"``, ``"nearest"``, ``"none"`` (nothing), or a number.
        dtype: of the result; that of `x` by default.
        kwargs: further arguments of the function, which is not differentiated by them.

    The halo's derivative adds what a halo has got to the elements that it was copied from.

    >>> import dask.array as da, pullback as pb
    >>> x = pb.dask.from_dask(da.arange(6.0, chunks=3), requires_grad=True)
    >>> y = pb.dask.map_overlap(lambda u: pb.roll(u, 1) * u, x, depth=1, boundary="periodic")
    >>> (gradient,) = pb.autograd.grad(y.sum(), [x])
    >>> [a.tolist() for a in pb.dask.compute(y, gradient)]
    [[0.0, 0.0, 2.0, 6.0, 12.0, 20.0], [6.0, 2.0, 4.0, 6.0, 8.0, 4.0]]
    """
    if not isinstance(x, Tensor) or not isinstance(x._array, DaskArray):
        raise AutogradTypeError("map_overlap: x has to be a tensor that holds a dask array")
    if any(is_dask(other) for other in operands):
        raise AutogradTypeError(
            "map_overlap: only x may hold a dask array; stack fields along a new axis of one chunk"
        )
    chunks = x._array.whole().chunks
    specs = halo_specs(x, chunks, depth, boundary)
    padded = add_halo(x, specs) if specs else x
    given = _Given("map_overlap", func, (padded, *operands), kwargs, dtype)
    return given.mapped(tuple(range(x.ndim)), chunks, specs)
